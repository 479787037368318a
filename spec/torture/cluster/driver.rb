# frozen_string_literal: true

require_relative "arena"
require_relative "courses"
require_relative "onlooker"
require_relative "product"
require_relative "../driver"

module Torture
  module Cluster
    # Moves slots, and disturbs the servers of a cluster.
    class Driver < Torture::Driver
      # All values are in seconds.
      READY_WITHIN = 20.0
      LOOK = 0.05
      LAG = 0.5          # the most that a replica lags behind its primary
      LONGEST_LAG = 0.4  # the longest time that a primary has no replica before it dies
      RETURNS_AFTER = 1.0 # from the failover until the old primary returns
      GIVES_UP_AFTER = 8.0
      TOLD = 2.0         # from when all nodes agree until every client knows the new primary
      LONGEST_MOVE = 0.6
      BEHIND = 2.0       # from the end of a move until the waiters are in order again

      # If a failover has lost the release of a lease, the lease expires within this time.
      AFTERMATH = 14.0
      PROBE_WAIT = AFTERMATH

      private

      def new_arena = Arena.new(@course)
      def new_onlooker = Onlooker.new(@arena, @adapter, chronicle, @course.look)

      # --- blows ---

      def move(blow) = move_slot(blow) { nil }

      # Moves a slot. Some of its keys stay on the old node for a while.
      def move_slowly(blow) = move_slot(blow) { sleep blow.roll * LONGEST_MOVE }

      def move_slot(blow, &)
        return unless ready?

        place = @adapter.place((blow.roll * KEYS).floor)
        slot = cluster.slot(place)
        from = cluster.settled_owner(slot)
        to = (@arena.primaries - [from]).sort_by(&:port)[blow.slot % 2]
        began = Clock.now
        cluster.move(slot, to, keys: some_of(from, slot, blow), &)
        chronicle.downs << [began, Clock.now + Torture.ns(BEHIND)]
      end

      def some_of(from, slot, blow)
        keys = from.call("CLUSTER", "GETKEYSINSLOT", slot, 100).sort
        keys.rotate(blow.slot).first((blow.duration * 100).floor % (keys.size + 1))
      end

      def kill_primary(blow)
        strike(blow) do |server|
          if blow.roll < 0.5
            @arena.lose_replicas(server)
            sleep blow.roll * 2 * LONGEST_LAG
          end
          server.kill
          -> { server.restart }
        end
      end

      def stop_primary(blow)
        strike(blow) do |server|
          server.stop_process
          -> { server.continue_process }
        end
      end

      def fail_over(blow)
        strike(blow) do |server|
          @arena.fail_over(server)
          -> {}
        end
      end

      # Yields a primary, which the block takes out of service. The block returns a lambda that
      # brings the primary back. Then waits until all nodes agree and the old primary is a replica.
      # The window of the failover ends TOLD seconds after that.
      def strike(blow)
        return unless ready?

        server = @arena.primaries.sort_by(&:port)[blow.slot % 3]
        began = Clock.now
        slot = @arena.owners.key(server).first
        repair = yield server
        promoted = await_another(server, slot)
        idle_until(Clock.now + Torture.ns(RETURNS_AFTER))
        repair.call
        ready?
        note_failover(server, began - Torture.ns(LAG), promoted)
      end

      # Waits until another server serves the slot, or until GIVES_UP_AFTER has passed. Returns the
      # time at the end of the wait.
      def await_another(server, slot)
        deadline = Clock.now + Torture.ns(GIVES_UP_AFTER)
        idle_until(Clock.now + Torture.ns(LOOK)) until Clock.now > deadline || moved?(server, slot)
        Clock.now
      end

      def moved?(server, slot)
        owner = @arena.owners&.find { |range, _| range.include?(slot) }&.last
        owner && owner != server
      end

      def note_failover(server, from, promoted)
        named = Clock.now
        over = named + Torture.ns(TOLD)
        chronicle.failovers << Chronicle::Failover.new(
          from: from, promoted: promoted, named: named, over: over, port: server.port, told: true
        )
        chronicle.downs << [from, over]
        chronicle.oblivions << Chronicle::Oblivion.new(from, over, nil)
      end

      def cluster = @arena.cluster

      # Waits until the cluster is whole. If that takes too long, notes a finding and returns false.
      def ready?
        deadline = Clock.now + Torture.ns(READY_WITHIN)
        until (whole = @arena.whole?) || Clock.now >= deadline
          idle_until(Clock.now + Torture.ns(LOOK))
        end
        chronicle.find(:group, "the cluster did not become whole again") unless whole
        whole
      end

      # The note that names a queue's former node may stay for ten minutes.
      def may_stay?(key, ttl)
        super || (Product.note_of_node?(key) && ttl.between?(0, 600))
      end
    end
  end
end
