# frozen_string_literal: true

require_relative "../adapters"
require_relative "../../support/sentinels"

module Torture
  module Sentinel
    # A primary, two replicas and three sentinels. They lose no acknowledged data, except what a
    # failover loses. Each worker's slot has its own user on the servers, and so has the driver.
    class Arena
      DRIVER = "driver"
      PASSWORD = "torture"
      TIMEOUT = 0.5
      SERVER = { "appendonly" => "yes", "appendfsync" => "always" }.freeze
      SENTINEL = {
        "sentinel down-after-milliseconds #{Support::Sentinels::NAME}" => "600",
        "sentinel failover-timeout #{Support::Sentinels::NAME}" => "1000"
      }.freeze
      # Makes sentinels talk to each other more often, so that an old primary soon becomes a
      # replica. Sentinels promote no replica whose last answer is older than five ping periods,
      # and while the primary is down, they ask replicas only once a second. So five ping periods
      # must be longer than a second.
      HASTE = %w[info-period 400 publish-period 300 ping-period 250].freeze
      BEAT = "torture:beat"

      attr_reader :group

      # The server that most sentinels name as the primary.
      attr_accessor :primary

      def initialize(course)
        @course = course
        names = [*course.workers.times.map { |slot| user(slot) }, DRIVER]
        users = names.to_h do |name|
          ["user##{name.sum}", [name, "on", ">#{PASSWORD}", "~*", "&*", "+@all"]]
        end
        @group = Support::Sentinels.new(server: { **SERVER, **numbered(users) }, sentinel: SENTINEL)
        @group.sentinels.each { |sentinel| hasten(sentinel) }
        @primary = servers.first
        @clients = {}
      end

      def servers = group.servers
      def sentinels = group.sentinels

      def address(slot)
        Address.new(group.url(user: "#{user(slot)}:#{PASSWORD}"), {},
                    { pool_size: @course.pool(slot) })
      end

      alias unix_address address

      # A new connection, for one thread.
      def client(server)
        RedisClient.config(path: server.unix_path, username: DRIVER, password: PASSWORD,
                           timeout: TIMEOUT, reconnect_attempts: 1).new_client
      end

      def onlooker = client(primary)

      def call(server, *command) = (@clients[server] ||= client(server)).call(*command)

      # --- disturbances ---

      # Cuts one connection of this type to the primary, as Torture::Arena does.
      def cut(type, roll)
        clients = call(primary, "CLIENT", "LIST", "TYPE", type).lines.filter_map do |line|
          line.match(/\Aid=(?<id>\d+) .* user=w(?<slot>\d+)\b/)
        end
        victim = clients[(roll * clients.size).floor] or return
        call(primary, "CLIENT", "KILL", "ID", victim[:id])
        Integer(victim[:slot])
      rescue RedisClient::Error
        nil # the primary is down or does not answer
      end

      def flush_scripts
        call(primary, "SCRIPT", "FLUSH")
      rescue RedisClient::Error
        nil
      end

      # Disconnects the server's replicas. They connect again by themselves within a second or two.
      def lose_replicas(server) = call(server, "CLIENT", "KILL", "TYPE", "replica")

      # Starts a server again: as a replica of the present primary, or as a primary with its old
      # data.
      def restart(server, as_replica:)
        place = as_replica ? ["127.0.0.1", primary.port.to_s] : %w[no one]
        server.restart(config: { "replicaof" => place })
      end

      # From now on, the sentinels and the other servers cannot log in on this server, but the
      # workers can.
      def isolate(server)
        call(server, "ACL", "SETUSER", "default", "resetpass", ">unknown to the others")
        call(server, "CLIENT", "KILL", "USER", "default")
      end

      def rejoin(server) = call(server, "ACL", "SETUSER", "default", "nopass")

      def fail_over(sentinel) = sentinel.call("SENTINEL", "FAILOVER", Support::Sentinels::NAME)

      def restart_sentinel(sentinel)
        sentinel.restart
        hasten(sentinel)
      end

      # --- what is left at the end ---

      # The number of the workers' connections to all servers and sentinels; and the number of
      # channels.
      def connections
        servers.sum { |one| call(one, "CLIENT", "LIST").lines.grep(/ user=w\d+\b/).size } +
          sentinels.sum { |one| one.call("CLIENT", "LIST").lines.grep(/ name=plock-/).size }
      end

      def channels = call(primary, "PUBSUB", "CHANNELS", "plock:*").size

      def keys
        names = call(primary, "KEYS", "*") - [BEAT]
        names.to_h { |key| [key, call(primary, "PTTL", key) / 1000.0] }
      end

      def stop = @group&.stop

      private

      def user(slot) = "w#{slot}"

      # Each user needs a setting of the same name, so a number makes each name unique.
      def numbered(users) =
        users.values.each_with_index.to_h { |words, i| ["user##{i}", words] }

      def hasten(sentinel)
        sentinel.call("SENTINEL", "DEBUG", *HASTE)
      rescue RedisClient::CommandError
        nil # older servers do not have these settings
      end
    end
  end
end
