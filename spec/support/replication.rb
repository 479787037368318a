# frozen_string_literal: true

require_relative "redis_server"

module Support
  # A primary with replicas, on loopback.
  #
  #   group = Support::Replication.new
  #   group.replicas.first.stop_process   # this replica confirms no write until continue_process
  class Replication
    DEADLINE = 30.0

    attr_reader :primary, :replicas

    # @param settings [Hash] the settings of each server
    # @param kind [Symbol] the kind of each server
    def initialize(replicas: 2, settings: {}, kind: :plain)
      # by default, a primary delays the first replica's data to wait for more replicas
      settings = { "repl-diskless-sync-delay" => "0", **settings }
      settings["tls-replication"] = "yes" if kind == :tls
      @primary = RedisServer.start(kind, config: settings)
      follow = { **settings, "replicaof" => ["127.0.0.1", primary.port.to_s] }
      @replicas = Array.new(replicas) { RedisServer.start(kind, config: follow) }
      await_all
    end

    # Waits until this many replicas follow the primary, and have all its data.
    def self.await(primary, count)
      ends = Process.clock_gettime(Process::CLOCK_MONOTONIC) + DEADLINE
      write(primary)
      until primary.call("WAIT", count, 100) >= count
        raise "a replica was not ready" if Process.clock_gettime(Process::CLOCK_MONOTONIC) > ends
      end
    end

    # Writes something, because WAIT asks about the last write on its connection. Without a write,
    # WAIT counts all replicas, whatever data they have.
    def self.write(primary)
      written = (1..100).find do |number| # a node of a cluster serves only some of the keys
        primary.call("INCR", "written:#{number}")
      rescue RedisClient::CommandError => e
        raise unless e.message.start_with?("MOVED", "ASK", "TRYAGAIN")
      end
      primary.call("DEL", "written:#{written}")
    end
    private_class_method :write

    def await_all = self.class.await(primary, replicas.size)

    def servers = [primary, *replicas]

    def stop = servers.each(&:stop)
  end
end
