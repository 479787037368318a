# frozen_string_literal: true

require_relative "../../afresh_in_child"
require_relative "../../clock"
require_relative "../../dispatcher"
require_relative "claim"
require_relative "lease_state"
require_relative "lock"
require_relative "owner"
require_relative "timekeeper"

module Plock
  module Testing
    # The locks of one store in memory, under one mutex and one clock. A forked child has a copy of
    # its own.
    #
    # @api private
    class MemoryBackend
      include AfreshInChild

      MICROSECONDS = 1_000_000

      @named = {}
      @used = []
      @naming = Mutex.new
      @knowing = Mutex.new

      # @param name [String] worlds of a name are the same; an empty one names none
      # @return [MemoryBackend]
      def self.named(name)
        return new if name.empty?

        @naming.synchronize { @named[name] ||= new }
      end

      # Empties every world of this process.
      #
      # @return [void]
      def self.clear_all
        named = @naming.synchronize { @named.values }
        used = @knowing.synchronize { @used.tap { @used = [] } }
        (named | used).each(&:clear)
      end

      # Keeps a world until the next {clear_all}, which has something to empty in it.
      #
      # @return [void]
      def self.know(world)
        @knowing.synchronize { @used << world }
      end

      def initialize
        @lock = Mutex.new
        @locks = {}
        @notes = {}
        @offset = 0.0
        @fence = 0
        @pid = Process.pid
        @timekeeper = Timekeeper.new(self, @lock)
        @known = !Events.here? # what is in another Ractor ends with it
      end

      # Forgets everything, and that its clock was moved. Leases are lost, of which nobody is told;
      # those who wait go without.
      #
      # @return [void]
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

      # @return [Float] seconds on this world's clock
      def now
        Clock.now + @offset
      end

      # @param time [Float] on this world's clock
      # @return [Float] the moment on {Clock} that lies as far away
      def real(time)
        time - @offset
      end

      # The world as it is now: under its mutex, in which nobody can be interrupted.
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

      # The same, with one lock that is up to date. It is forgotten when there is nothing to
      # remember.
      #
      # @yieldparam lock [MemoryLock]
      # @yieldparam now [Float]
      # @return [Object] the block's value
      def with(key)
        with_all([key]) { |(lock), now| yield lock, now }
      end

      # The same, with several.
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

      # Keeps a note where there is none yet, or instead of the one that there is.
      #
      # @return [String, nil] the one that is kept
      def keep_note(name, note, replace)
        enter do
          @notes[name] = note if !note.empty? && (replace || !@notes.key?(name))
          @notes[name]
        end
      end

      # @return [Array<String>] the keys that are held
      def held_keys
        enter do |now|
          catch_up(now)
          @locks.each_value.select { |lock| lock.holders.any? }.map(&:key)
        end
      end

      # Moves the clock on, from one event to the next.
      #
      # @param seconds [Float]
      # @return [void]
      def advance(seconds)
        enter do |start|
          while (due = next_event) && due <= start + seconds
            catch_up(due)
          end
          @offset += seconds
          @timekeeper.clock_moved
        end
      end

      # Only under the mutex.
      #
      # @return [Float, nil] when somebody is to hear of something, if nobody calls before
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

      # @param time [Float] on this world's clock
      # @return [Float] seconds since 1970, as somebody would read it who does not know that the
      #   clock was moved
      def since_epoch(time)
        Process.clock_gettime(Process::CLOCK_REALTIME) - (now - time)
      end

      # @return [void]
      def notice(notice)
        Dispatcher.start
        Dispatcher.post(notice)
      end

      private

      def be_known
        @known = true
        MemoryBackend.know(self)
      end

      def alarm_at
        @locks.each_value.filter_map(&:alarm_at).min
      end

      def next_event
        @locks.each_value.filter_map(&:next_event).min
      end

      # Those who waited in the parent are not in the child; what the parent holds, it holds here
      # too, until its time is over.
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
