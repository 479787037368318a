# frozen_string_literal: true

require_relative "redis_server"
require_relative "replication"

module Support
  # A Redis Cluster of three primaries, each with a replica, on loopback.
  #
  #   cluster = Support::Cluster.new
  #   Plock::Store.open(cluster.url)
  #   cluster.owner(key)                 # the primary that serves the key's slot
  #   cluster.move(slot, to) { … }       # the block runs while the slot is moving
  #
  #   cluster = Support::Cluster.new(failover: true)
  #   cluster.owner(key).kill            # its replica takes over after NODE_TIMEOUT_MS
  class Cluster
    SLOTS = 16_384
    NODE_TIMEOUT_MS = 500
    # For clusters without failovers: even on a busy machine, a node answers the others within
    # this time.
    STEADY_NODE_TIMEOUT_MS = 10_000
    DEADLINE = 40.0
    UNSETTLED_S = 3 # seconds after which nodes that still disagree will not agree by themselves

    attr_reader :servers

    # @param primaries [Integer]
    # @param replicas [Integer] the number of replicas of each primary
    # @param kind [Symbol] the kind of each server: `:plain` or `:tls`
    # @param settings [Hash] the settings of each server
    # @param failover [Boolean] should the nodes notice quickly that a node is down?
    def initialize(primaries: 3, replicas: 1, kind: :plain, settings: {}, failover: false)
      @kind = kind
      @settings = kind == :tls ? { **tls, **settings } : settings
      count = primaries * (1 + replicas)
      @servers = Array.new(count) { Thread.new { start_server } }.map(&:value)
      share_slots(servers.first(primaries))
      introduce(servers)
      servers.drop(primaries).each_with_index do |server, number|
        follow(server, servers[number % primaries])
      end
      await_whole
      steady unless failover
    end

    def url(user: nil, query: nil, among: servers)
      places = among.map { |one| "127.0.0.1:#{one.port}" }.join(",")
      scheme = @kind == :tls ? "rediss" : "redis"
      "#{scheme}+cluster://#{"#{user}@" if user}#{places}#{"?#{query}" if query}"
    end

    # @return [RedisServer] the primary that serves the key's slot, according to the first running
    #   server
    def owner(key) = owner_of(slot(key))

    def owner_of(slot)
      owner_for(running, slot) or raise "slot #{slot} is unserved"
    end

    # @return [RedisServer, nil] the slot's primary, according to that server
    def owner_for(server, slot)
      range = map(server).find { |first, last, _| slot.between?(first, last) }
      range && at(range[2][1])
    end

    def slot(key) = running.call("CLUSTER", "KEYSLOT", key)

    # @param name [String]
    # @param each [Integer] how many keys on each primary
    # @return [Array<String>] keys that begin with this name. Consecutive keys are on different
    #   primaries.
    def spread(name, each: 3)
      found = primaries.to_h { |one| [one, []] }
      (0..).each do |number|
        here = found.fetch(owner(Plock.store_key("plock:v1:{", "#{name}:#{number}")))
        here << "#{name}:#{number}" if here.size < each
        return found.values.transpose.flatten if found.values.all? { |names| names.size == each }
      end
    end

    def primaries = map.map { |range| at(range[2][1]) }.uniq

    def replica_of(primary)
      servers.find do |one|
        next unless one.pid && one != primary

        role, _, port = one.call("ROLE")
        role == "slave" && port == primary.port
      end
    end

    # Moves a slot as redis-cli does. Moves the keys in `keys:` first. Then the block runs while
    # the slot is still moving.
    def move(slot, to, keys: [])
      from = begin_moving(slot, to)
      migrate(from, to, keys)
      yield from if block_given?
      until (left = from.call("CLUSTER", "GETKEYSINSLOT", slot, 100)).empty?
        migrate(from, to, left)
      end
      [to, from, *(primaries - [to, from])].each do |one|
        one.call("CLUSTER", "SETSLOT", slot, "NODE", id(to))
      end
      await_agreement(slot) { servers.select(&:pid).all? { |one| owner_for(one, slot) == to } }
      from
    end

    # Waits until the block is true. Meanwhile, settles what the nodes cannot settle themselves:
    #
    # - Two nodes with the same epoch claim the slot. New epochs decide between them.
    # - No node claims the slot, because each of two nodes names the other as its owner. Only an
    #   assignment of the slot helps. This happens when an outdated message with a greater epoch
    #   reaches the new owner after it got the slot.
    def await_agreement(slot)
      started = decided_at = now
      await do
        next true if yield

        if now > decided_at + 1
          primaries.each { |one| one.call("CLUSTER", "BUMPEPOCH") }
          assign(slot) if now > started + UNSETTLED_S
          decided_at = now
        end
        false
      end
    end

    # Assigns the slot to the primary that has the most keys of this slot.
    def assign(slot)
      to, *others = primaries.sort_by { |one| -one.call("CLUSTER", "COUNTKEYSINSLOT", slot) }
      [to, *others].each { |one| one.call("CLUSTER", "SETSLOT", slot, "NODE", id(to)) }
      to.call("CLUSTER", "BUMPEPOCH")
    rescue RedisClient::CommandError
      nil # another node also has keys in this slot
    end

    # Returns the owner, once all nodes agree. An outdated message may make a node forget the
    # greatest epoch for a moment. A node that receives the slot at that moment takes no new epoch,
    # and loses the slot again.
    def settled_owner(slot)
      owner = nil
      await_agreement(slot) do
        views = servers.select(&:pid).map { |one| [owner_for(one, slot), epoch(one)] }
        owner = views.first.first if views.uniq.one?
      end
      owner
    end

    def begin_moving(slot, to)
      from = nil
      await do
        from = settled_owner(slot)
        to.call("CLUSTER", "SETSLOT", slot, "IMPORTING", id(from))
        from.call("CLUSTER", "SETSLOT", slot, "MIGRATING", id(to))
      rescue RedisClient::CommandError
        false
      end
      from
    end

    def migrate(from, to, keys)
      return if keys.empty?

      from.call("MIGRATE", "127.0.0.1", to.port, "", 0, 5_000, "REPLACE", "KEYS", *keys)
    end

    # Adds a primary without slots. When this returns, all other nodes know it.
    def add
      server = start_server
      introduce([servers.find(&:pid), server])
      servers << server
      await do
        servers.select(&:pid).all? do |one|
          known(one) == servers.count(&:pid) &&
            one.call("CLUSTER", "INFO").include?("cluster_state:ok")
        end
      end
      server
    end

    # Waits until another server serves the slots of a primary that is down.
    def await_another(before, slot)
      others = servers.select { |one| one.pid && one != before }
      await do
        others.all? do |one|
          ![nil, before].include?(owner_for(one, slot)) &&
            one.call("CLUSTER", "INFO").include?("cluster_state:ok")
        end
      end
      owner_for(others.first, slot)
    end

    def await_whole
      await { servers.all? { |one| whole?(one) } }
    end

    # Waits until the nodes name all replicas. They leave out replicas that have not received any
    # data yet.
    def await_named_replicas
      primaries.each { |one| Replication.await(one, 1) }
      await { primaries.all? { |one| map(one).all? { |_, _, _, *replicas| replicas.any? } } }
    end

    def stop = servers.each(&:stop)

    def await(deadline = DEADLINE)
      ends = now + deadline
      until yield
        raise "the cluster was not ready: #{state}" if now > ends

        sleep 0.01
      end
    end

    private

    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

    def start_server
      RedisServer.start(
        @kind,
        config: {
          "cluster-enabled" => "yes", "cluster-node-timeout" => NODE_TIMEOUT_MS.to_s,
          "cluster-config-file" => "nodes.conf", "cluster-replica-validity-factor" => "0",
          "cluster-allow-replica-migration" => "no", "repl-diskless-sync-delay" => "0", **@settings
        }
      )
    end

    # Nodes connect to each other as clients, so their certificate must be valid for clients.
    def tls
      pair = Certificates.client
      { "tls-cluster" => "yes", "tls-replication" => "yes",
        "tls-client-cert-file" => pair.cert_file, "tls-client-key-file" => pair.key_file }
    end

    def steady
      timeout = STEADY_NODE_TIMEOUT_MS.to_s
      servers.each { |one| one.call("CONFIG", "SET", "cluster-node-timeout", timeout) }
    end

    def running = servers.find(&:pid)

    def map(server = running)
      client = @kind == :tls ? server.secure_client : server.client
      client.call("CLUSTER", "SLOTS")
    end

    def at(port) = servers.find { |server| server.port == port }

    def id(server) = server.call("CLUSTER", "MYID")

    # The state of all nodes, for the error message.
    def state
      servers.select(&:pid).map { |one| "#{one.port}: #{one.call("CLUSTER", "NODES")}" }.join("\n")
    end

    def epoch(server) = server.call("CLUSTER", "INFO")[/cluster_current_epoch:(\d+)/, 1]

    def known(server) = server.call("CLUSTER", "NODES").lines.grep_v(/handshake|fail|noaddr/).size

    def share_slots(primaries)
      primaries.each_with_index do |server, number|
        first = SLOTS * number / primaries.size
        last = (SLOTS * (number + 1) / primaries.size) - 1
        server.call("CLUSTER", "ADDSLOTS", *first..last)
        server.call("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
      end
    end

    def introduce(all)
      all.drop(1).each { |one| one.call("CLUSTER", "MEET", "127.0.0.1", all.first.port) }
      await { all.all? { |one| known(one) >= all.size } }
    end

    def follow(replica, primary)
      await do
        replica.call("CLUSTER", "REPLICATE", id(primary))
      rescue RedisClient::CommandError
        false # the node does not know yet that this is a primary
      end
    end

    def whole?(server)
      info = server.call("CLUSTER", "INFO")
      return false unless info.include?("cluster_state:ok") && known(server) == servers.size

      role = server.call("ROLE")
      role[0] == "master" || role[3] == "connected"
    end
  end
end
