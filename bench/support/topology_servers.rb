# frozen_string_literal: true

require "json"
require "tmpdir"
require_relative "../../spec/support/cluster"
require_relative "../../spec/support/sentinels"
require_relative "pinning"

module Bench
  # The servers of the test suite: one Redis, a cluster of three nodes, and three sentinels with a
  # primary and two replicas. In place of a socket, their Address has the path of a file with their
  # URLs and ports.
  class TopologyServers
    FLOOR_KEY = "bench:floor" # the key in floor.c

    def self.run
      servers = new
      yield servers
    ensure
      servers&.stop
    end

    attr_reader :address

    def initialize
      @folder = Dir.mktmpdir("plock-bench")
      @single = Support::RedisServer.start(:plain)
      @cluster = Support::Cluster.new(replicas: 0)
      @sentinels = Support::Sentinels.new
      @address = Address.new(0, File.join(@folder, "urls.json"))
      File.write(
        @address.socket,
        JSON.dump(
          "single" => @single.url, "cluster" => @cluster.url, "floor" => @single.port,
          "floor-cluster" => @cluster.owner(FLOOR_KEY).port,
          "primary" => @sentinels.primary.url, "sentinel" => @sentinels.url
        )
      )
    end

    # Moves all servers to the server's core.
    def place(placement) =
      all.each { |server| Pinning.move(server.pid, placement.server_core) }

    def stop
      [@sentinels, @cluster, @single].compact.each(&:stop)
    ensure
      FileUtils.rm_rf(@folder)
    end

    private

    def all = [@single, *@cluster.servers, *@sentinels.servers, *@sentinels.sentinels]
  end
end
