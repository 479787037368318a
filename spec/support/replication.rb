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
    def initialize(replicas: 2, settings: {})
      @primary = RedisServer.start(config: settings)
      follow = {
        "replicaof" => ["127.0.0.1", primary.port.to_s], "repl-diskless-sync-delay" => "0"
      }
      @replicas = Array.new(replicas) { RedisServer.start(config: { **settings, **follow }) }
      await_all
    end

    # Returns when all replicas have what the primary has, and go on following it.
    def await_all
      ends = Process.clock_gettime(Process::CLOCK_MONOTONIC) + DEADLINE
      until primary.call("INFO", "replication").scan("state=online").size == replicas.size &&
            primary.call("WAIT", replicas.size, 100) == replicas.size
        raise "a replica was not ready" if Process.clock_gettime(Process::CLOCK_MONOTONIC) > ends

        sleep 0.005
      end
    end

    def servers = [primary, *replicas]

    def stop = servers.each(&:stop)
  end
end
