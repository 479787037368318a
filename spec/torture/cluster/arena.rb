# frozen_string_literal: true

require_relative "../adapters"
require_relative "../../support/cluster"

module Torture
  module Cluster
    # Three primaries with a replica each. They keep all that they acknowledged, except for what a
    # failover loses. Each slot of a worker has its own user on the servers.
    class Arena
      PASSWORD = "torture"
      TIMEOUT = 0.5
      # A server that a busy machine keeps from running for a moment is no reason for a failover.
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

      # A connection for one thread.
      def client(server)
        settings = { path: server.unix_path, timeout: TIMEOUT, reconnect_attempts: 1 }
        RedisClient.config(**settings).new_client
      end

      def call(server, *command) = (@clients[server] ||= client(server)).call(*command)

      # The servers that answer, and say that they are primaries of slots.
      def primaries
        servers.select do |server|
          call(server, "CLUSTER", "NODES")[/^.*myself.*$/].match?(/master.* connected \S*\d/)
        rescue RedisClient::Error
          false
        end
      end

      # Which server serves each slot, as one that answers sees it; nil: none answers.
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

      # --- what is done to it ---

      # Cuts one connection of that kind to a primary; see Torture::Arena.
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
        nil # it is away, or silent
      end

      def flush_scripts
        primaries.each { |server| call(server, "SCRIPT", "FLUSH") }
      rescue RedisClient::Error
        nil
      end

      # Its replicas come back by themselves, within a second or two.
      def lose_replicas(server) = call(server, "CLIENT", "KILL", "TYPE", "replica")

      def fail_over(server) = call(cluster.replica_of(server), "CLUSTER", "FAILOVER")

      # Do all agree who serves what, and has each primary its replica?
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

      # --- what is left in the end ---

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
