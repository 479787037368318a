# frozen_string_literal: true

require_relative "../adapters"
require_relative "../../support/cluster"

module Torture
  module Cluster
    # Three primaries, each with a replica. They lose no acknowledged data, except what a failover
    # loses. Each worker's slot has its own user on the servers.
    class Arena
      PASSWORD = "torture"
      TIMEOUT = 0.5
      # The timeout is long enough that a server causes no failover if a busy machine delays it
      # for a moment.
      SERVER = { "appendonly" => "yes", "appendfsync" => "always",
                 "cluster-node-timeout" => "1200" }.freeze

      attr_reader :cluster

      def initialize(course)
        @course = course
        users = course.workers.times.to_h do |slot|
          ["user##{slot}", [user(slot), "on", ">#{PASSWORD}", "~*", "&*", "+@all"]]
        end
        @cluster = Support::Cluster.new(settings: { **SERVER, **users }, failover: true)
        @clients = {}
      end

      def servers = cluster.servers

      def address(slot)
        Address.new(cluster.url(user: "#{user(slot)}:#{PASSWORD}"), {},
                    { pool_size: @course.pool(slot) })
      end

      alias unix_address address

      # A new connection, for one thread.
      def client(server)
        settings = { path: server.unix_path, timeout: TIMEOUT, reconnect_attempts: 1 }
        RedisClient.config(**settings).new_client
      end

      def call(server, *command) = (@clients[server] ||= client(server)).call(*command)

      # The servers that answer and that call themselves primaries with slots.
      def primaries
        servers.select do |server|
          call(server, "CLUSTER", "NODES")[/^.*myself.*$/].match?(/master.* connected \S*\d/)
        rescue RedisClient::Error
          false
        end
      end

      # The server of each range of slots, according to the first node that answers. Nil if no
      # node answers.
      def owners
        servers.each do |server|
          return call(server, "CLUSTER", "SLOTS").to_h do |first, last, primary|
            [first..last, servers.find { |one| one.port == primary[1] }]
          end
        rescue RedisClient::Error
          next
        end
        nil
      end

      # --- disturbances ---

      # Cuts one connection of this type to a primary, as Torture::Arena does.
      def cut(type, roll)
        all = primaries.flat_map do |server|
          lines = call(server, "CLIENT", "LIST", "TYPE", type).lines
          lines.filter_map { |line| line.match(/\Aid=(?<id>\d+) .* user=w(?<slot>\d+)\b/) }
               .map { |victim| [server, victim] }
        end
        server, victim = all[(roll * all.size).floor]
        return unless server

        call(server, "CLIENT", "KILL", "ID", victim[:id])
        Integer(victim[:slot])
      rescue RedisClient::Error
        nil # the server is down or does not answer
      end

      def flush_scripts
        primaries.each { |server| call(server, "SCRIPT", "FLUSH") }
      rescue RedisClient::Error
        nil
      end

      # Disconnects the server's replicas. They connect again by themselves within a second or two.
      def lose_replicas(server) = call(server, "CLIENT", "KILL", "TYPE", "replica")

      def fail_over(server) = call(cluster.replica_of(server), "CLUSTER", "FAILOVER")

      # Do all servers agree on who serves which slots, and does each primary have its replica?
      def whole?
        return false unless servers.all?(&:pid)

        views = servers.map do |one|
          call(one, "CLUSTER", "SLOTS").map { |range| range[0..2].flatten }
        end
        views.map { |view| view.map { |range| range.values_at(0, 1, 3) }.sort }.uniq.one? &&
          servers.all? { |one| healthy?(one) }
      rescue RedisClient::Error
        false
      end

      # --- what is left at the end ---

      def connections
        servers.sum { |one| call(one, "CLIENT", "LIST").lines.grep(/ user=w\d+\b/).size }
      end

      def channels = servers.sum { |one| call(one, "PUBSUB", "CHANNELS", "plock:*").size }

      def keys
        primaries.reduce({}) do |all, server|
          keys = call(server, "KEYS", "*")
          all.merge(keys.to_h { |key| [key, call(server, "PTTL", key) / 1000.0] })
        end
      end

      def stop = @cluster&.stop

      private

      def healthy?(server)
        return false unless call(server, "CLUSTER", "INFO").include?("cluster_state:ok")

        role = call(server, "ROLE")
        role[0] == "master" ? role[2].any? : role[3] == "connected"
      end

      def user(slot) = "w#{slot}"
    end
  end
end
