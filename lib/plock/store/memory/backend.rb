# frozen_string_literal: true

require_relative "../../afresh_in_child"
require_relative "../../clock"
require_relative "../../dispatcher"
require_relative "lease"
require_relative "lock"
require_relative "timekeeper"

module Plock
  module Testing
    # The locks of one store in memory, under one mutex and on one clock, which tests can move. A
    # forked child has a copy of its own.
    #
    # @api private
    class MemoryBackend
      include AfreshInChild

      MICROSECONDS = 1_000_000

      @named = {}
      @used = []
      @naming = Mutex.new
      @knowing = Mutex.new

      # @param name [String] the same name gives the same backend; an empty one gives a new backend
      # @return [MemoryBackend]
      def self.named(name)
        return new if name.empty?

        @naming.synchronize { @named[name] ||= new }
      end

      # Empties every backend of this process.
      def self.clear_all
        named = @naming.synchronize { @named.values }
        used = @knowing.synchronize { @used.tap { @used = [] } }
        (named | used).each(&:clear)
      end

      # Remembers a backend that the next {clear_all} must empty.
      def self.know(backend)
        @knowing.synchronize { @used << backend }
      end

      def initialize
        @lock = Mutex.new
        @locks = {}
        @notes = {}
        @offset = 0.0
        @fence = 0
        @pid = Process.pid
        @timekeeper = Timekeeper.new(self, @lock)
        @known = !Events.here? # a backend in another Ractor ends with it
      end

      # Forgets all locks, and that the clock was moved. Leases are lost without a notice; waiters
      # are refused.
      def clear
        enter do
          @locks.each_value(&:clear)
          @locks.clear
          @notes.clear
          @offset = 0.0
          @timekeeper.clock_moved
        end
        @known = false
      end

      # @return [Float] seconds on this backend's clock
      def now = Clock.now + @offset

      # @param time [Float] on this backend's clock
      # @return [Float] the same moment on {Clock}
      def real(time) = time - @offset

      # Runs the block under the mutex, with interrupts masked.
      #
      # @yieldparam now [Float]
      # @return [Object] the block's value
      def enter
        super do
          value = yield now
          be_known unless @known || (@locks.empty? && @offset.zero?)
          @timekeeper.expect(alarm_at)
          value
        end
      end

      # As {#enter}, with one lock that is up to date.
      #
      # @yieldparam lock [MemoryLock]
      # @yieldparam now [Float]
      # @return [Object] the block's value
      def with(key)
        with_all([key]) { |(lock), now| yield lock, now }
      end

      # As {#with}, with several locks. An idle lock is forgotten after the block.
      #
      # @yieldparam locks [Array<MemoryLock>]
      # @yieldparam now [Float]
      # @return [Object] the block's value
      def with_all(keys)
        enter do |now|
          locks = keys.map { |key| @locks[key] || MemoryLock.new(key, self) }
          locks.each { |lock| lock.catch_up(now) }
          value = yield locks, now
          locks.each { |lock| lock.idle? ? @locks.delete(lock.key) : @locks[lock.key] = lock }
          value
        end
      end

      # Keeps a note if there is none yet, or if it may replace the one that is there.
      #
      # @return [String, nil] the note that is kept
      def keep_note(name, note, replace)
        enter do
          @notes[name] = note if !note.empty? && (replace || !@notes.key?(name))
          @notes[name]
        end
      end

      # @return [Array<String>]
      def held_keys
        enter do |now|
          catch_up(now)
          @locks.each_value.select { |lock| lock.holders.any? }.map(&:key)
        end
      end

      # Moves the clock on, from one event to the next.
      #
      # @param seconds [Float]
      def advance(seconds)
        enter do |start|
          while (due = next_event) && due <= start + seconds
            catch_up(due)
          end
          @offset += seconds
          @timekeeper.clock_moved
        end
      end

      # The caller must hold the mutex.
      #
      # @return [Float, nil] when it must be called again at the latest
      def catch_up(now)
        @locks.each_value { |lock| lock.catch_up(now) }
        @locks.delete_if { |_key, lock| lock.idle? }
        alarm_at
      end

      # @return [Integer]
      def next_fence(now)
        wall = Process.clock_gettime(Process::CLOCK_REALTIME) + now - Clock.now
        @fence = [@fence + 1, (wall * MICROSECONDS).round].max
      end

      # @param time [Float] on this backend's clock
      # @return [Float] seconds since 1970, as if the clock had not been moved
      def since_epoch(time)
        Process.clock_gettime(Process::CLOCK_REALTIME) - (now - time)
      end

      def notice(notice)
        Dispatcher.start
        Dispatcher.post(notice)
      end

      private

      def be_known
        @known = true
        MemoryBackend.know(self)
      end

      def alarm_at = @locks.each_value.filter_map(&:alarm_at).min

      def next_event = @locks.each_value.filter_map(&:next_event).min

      # The parent's waiters are not in the child. The parent's leases hold their keys here too,
      # until they expire.
      def start_afresh
        @timekeeper = Timekeeper.new(self, @lock)
        @locks.each_value do |lock|
          lock.waiters.clear
          lock.holders.each(&:forget)
        end
      end
    end
  end
end
