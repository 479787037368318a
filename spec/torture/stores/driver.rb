# frozen_string_literal: true

require_relative "arena"
require_relative "courses"
require_relative "lane"
require_relative "../driver"

module Torture
  module Stores
    # Disturbs a store in Ruby.
    class Driver < Torture::Driver
      MARGIN_S = 3.0 # seconds that the probes at the end wait longer than they should need
      ENDING = LAST_CALL + Worker::CLOSING_TIME + 4.0

      # When a dead waiter's place in the queue has expired, it must be removed within this many
      # seconds.
      GHOST_S = 2.0

      def initialize(kind:, **options)
        @kind = kind
        super(adapter: kind.product, **options)
      end

      private

      def new_arena = Arena.new(@course, @kind)
      def new_blows(random) = Blows.new(random, @course)
      def new_onlooker = nil
      def new_worker(**facts) = Worker.new(**facts)

      # --- blows ---

      def sever(blow)
        from = Clock.now
        @arena.sever(blow.slot)
        @slots[blow.slot].cuts << [from, Clock.now]
      end

      def silence(blow)
        chronicle.span(chronicle.downs) do
          @arena.fall_silent
          idle_until(Clock.now + Torture.ns(blow.duration))
        ensure
          @arena.speak
        end
      end

      def restart(_blow)
        return chronicle.span(chronicle.downs) { @arena.restart } unless @kind.forgets

        forget(nil) { chronicle.span(chronicle.downs) { @arena.restart } }
      end

      # --- the end ---

      def inspect_remains
        eventually("processes") do
          chronicle.lives.each_value.select { |life| group?(life.pid) }.map(&:name)
        end
        @arena.labels.each { |label| chronicle.held[label] = Clock.now }
        KEYS.times { |key| probe(key) }
        eventually("connections") { [@arena.connections].reject(&:zero?) }
        sleep GHOST_S
        ghosts = @arena.ghosts
        chronicle.find(:leak, "#{ghosts} places in line outlive their time") if ghosts.positive?
      end

      # Seconds for which a probe waits, because dead holders and waiters may still block its key.
      def patience
        longest = @course.ttls.keys.max
        own = @kind.settles && longest > LONG_LEASE ? @kind.settles : longest
        own + @kind.place_s + @kind.late_s + MARGIN_S
      end

      def probe(key)
        pid = Process.fork do
          lock = @adapter.new(@arena.direct_address)
          way = Torture.way_to(key)
          Process.exit!(0) unless lock.ways.include?(way) && way != ONCE # `once` never waits
          lock.enter(way, key, ttl: 1.0, wait: patience, renew: false, label: "probe") { nil }
          Process.exit!(0)
        rescue Exception => e # otherwise, the child would continue as a second driver
          warn e.full_message(highlight: false) unless e.is_a?(Refused)
          Process.exit!(1)
        end
        _, status = Process.wait2(pid)
        return if status.success?

        chronicle.find(
          :late, "key #{key} was not acquired within #{patience} s, and no call is left: #{status}"
        )
      end
    end
  end
end
