# frozen_string_literal: true

require_relative "redis_server"

module Support
  # A primary with replicas, on loopback.
  #
  #   group = Support::Replication.new
  #   group.replicas.first.stop_process   # it confirms nothing until continue_process
  class Replication
    DEADLINE = 30.0

    attr_reader :primary, :replicas

    # @param settings [Hash] of each server
    # @param kind [Symbol] of each server
    def initialize(replicas: 2, settings: {}, kind: :plain)
      # a primary would wait for more replicas before it serves the first one
      settings = { "repl-diskless-sync-delay" => "0", **settings }
      settings["tls-replication"] = "yes" if kind == :tls
      @primary = RedisServer.start(kind, config: settings)
      follow = { **settings, "replicaof" => ["127.0.0.1", primary.port.to_s] }
      @replicas = Array.new(replicas) { RedisServer.start(kind, config: follow) }
      await_all
    end

    # Returns when that many replicas have what the primary has now, and go on following it.
    def self.await(primary, count)
      ends = Process.clock_gettime(Process::CLOCK_MONOTONIC) + DEADLINE
      write(primary)
      until primary.call("WAIT", count, 100) >= count
        raise "a replica was not ready" if Process.clock_gettime(Process::CLOCK_MONOTONIC) > ends
      end
    end

    # WAIT asks about the last write of its connection. After none, it counts replicas of any state.
    def self.write(primary)
      written = (1..100).find do |number| # a node of a cluster serves some of the keys
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
