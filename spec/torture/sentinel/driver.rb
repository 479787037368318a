# frozen_string_literal: true

require_relative "courses"
require_relative "onlooker"
require_relative "overseer"
require_relative "../driver"

module Torture
  module Sentinel
    Product = Torture::Product

    # Disturbs the workers, and also the servers and sentinels.
    class Driver < Torture::Driver
      # All in seconds. The group is ready for the next failover within READY_WITHIN. The old
      # primary returns RETURNS_AFTER after the failover. Without a failover, it returns
      # GIVES_UP_AFTER after the blow.
      READY_WITHIN = 12.0
      LOOK = 0.05
      RETURNS_AFTER = 1.0
      GIVES_UP_AFTER = 8.0

      LONGEST_LAG = 0.4 # the longest time that a primary has no replicas before it dies
      LONGER = 3        # a sentinel is away this many times longer than a stopped worker

      # If a failover has lost the release of a lease, the lease expires within this time.
      AFTERMATH = 14.0
      PROBE_WAIT = AFTERMATH

      # How a server or sentinel is repaired, as soon as `due` returns true.
      Repair = Struct.new(:node, :due, :how)

      def run
        @repairs = []
        @outages = [] # [sentinel, from, to] of each outage of a sentinel
        super
      ensure
        @overseer&.stop
      end

      private

      def new_arena = Arena.new(@course).tap { |arena| @overseer = Overseer.new(arena) }
      def new_onlooker = Onlooker.new(@arena, @adapter, chronicle, @course.look)

      # --- blows ---

      def kill_primary(blow)
        strike do |server|
          if blow.roll < 0.5
            @arena.lose_replicas(server)
            sleep blow.roll * 2 * LONGEST_LAG
          end
          since = Clock.now
          server.kill
          comes_back(server, since) do
            @arena.restart(server, as_replica: (blow.roll * 10).floor.even?)
          end
        end
      end

      def stop_primary(blow)
        strike do |server|
          since = Clock.now
          server.stop_process
          next comes_back(server, since) { server.continue_process } if blow.roll > 0.3

          ends = since + Torture.ns(blow.roll) # the server returns before a failover can begin
          @repairs << Repair.new(server, -> { Clock.now >= ends },
                                 -> { came_back(server, since) { server.continue_process } })
        end
      end

      def fail_over(blow)
        strike { @arena.fail_over(@arena.sentinels[blow.slot % 3]) }
      rescue RedisClient::CommandError
        chronicle.count(:unready)
      end

      def isolate(_blow)
        strike do |server|
          @arena.isolate(server)
          comes_back(server) { @arena.rejoin(server) }
        end
      end

      def kill_sentinel(blow)
        disturb_sentinel(blow, :kill) { |sentinel| @arena.restart_sentinel(sentinel) }
      end

      def stop_sentinel(blow) = disturb_sentinel(blow, :stop_process, &:continue_process)

      # Yields the primary as soon as the group is whole, so that a majority of the sentinels and a
      # replica can replace it.
      def strike
        deadline = [Clock.now + Torture.ns(READY_WITHIN), @over].min
        until whole?
          return chronicle.count(:unready) if Clock.now >= deadline

          idle_until(Clock.now + Torture.ns(LOOK))
        end
        yield @arena.primary
      end

      def whole? = @repairs.empty? && @overseer.ready?

      # Schedules the server's return: after a failover, or after some time without one. since:
      # when the server stopped serving; nil: it still serves.
      def comes_back(server, since = nil, &how)
        patience = Clock.now + Torture.ns(GIVES_UP_AFTER)
        due = -> { Clock.now >= patience || @overseer.named_other_for?(server, RETURNS_AFTER) }
        @repairs << Repair.new(server, due, -> { came_back(server, since, &how) })
      end

      def came_back(server, since)
        yield
        chronicle.downs << [since, Clock.now] if since && @arena.primary == server
      end

      def disturb_sentinel(blow, deed)
        sentinel = @arena.sentinels[blow.slot % 3]
        return chronicle.count(:unready) unless @outages.all?(&:last)

        @outages << (outage = [sentinel, Clock.now, nil])
        sentinel.public_send(deed)
        ends = Clock.now + Torture.ns(blow.duration * LONGER)
        @repairs << Repair.new(sentinel, -> { Clock.now >= ends },
                               -> { yield(sentinel); outage[2] = Clock.now })
      end

      # --- the sequence of a round ---

      def deal_blows
        @over = Clock.now + Torture.ns(@seconds)
        super
      end

      def idle_until(moment)
        loop do
          repair
          super([moment, Clock.now + Torture.ns(LOOK)].min)
          return if Clock.now >= moment
        end
      end

      def repair
        due, @repairs = @repairs.partition { |one| one.due.call }
        due.each { |one| one.how.call }
      end

      # Keeps the workers running until the group is whole again.
      def finish
        deadline = Clock.now + Torture.ns(READY_WITHIN + GIVES_UP_AFTER)
        idle_until(Clock.now + Torture.ns(LOOK)) until whole? || Clock.now >= deadline
        unless whole?
          chronicle.find(:group, "the servers and sentinels did not become whole again: " \
                                 "#{@overseer.state}")
        end
        super
      end

      def inspect_remains
        chronicle.failovers.concat(@overseer.failovers(@outages))
        chronicle.downs.concat(@overseer.downs)
        chronicle.failovers.each do |one|
          chronicle.oblivions << Chronicle::Oblivion.new(one.from, one.over, nil)
        end
        super
      end
    end
  end
end
