# frozen_string_literal: true

require_relative "../../afresh_in_child"
require_relative "../../clock"
require_relative "../../dispatcher"
require_relative "lease"
require_relative "lock"
require_relative "../support/scheduler"

module Plock
  module Testing
    # The locks of one store in memory, under one mutex and on one clock, which tests can move. A
    # forked child has a copy of its own. It is a task of a {Store::Scheduler}, which calls it when
    # something is due and no other thread has looked.
    #
    # @api private
    class MemoryBackend
      include AfreshInChild

      MICROSECONDS = 1_000_000

      @named = {}
      @used = []
      @naming = BriefMutex.new
      @knowing = BriefMutex.new

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
      def self.know(backend) = @knowing.synchronize { @used << backend }

      def initialize
        @lock = Mutex.new
        @locks = {}
        @notes = {}
        @debts = []
        @down = false
        @offset = 0.0
        @fence = 0
        @pid = Process.pid
        @scheduled_at = nil
        @scheduler = Store::Scheduler.new
        @known = !Events.here? # a backend in another Ractor ends with it
      end

      # Forgets all locks, and that the clock was moved. Leases are lost without a notice; waiters
      # are refused.
      def clear
        enter do
          @locks.each_value(&:clear)
          @locks.clear
          @notes.clear
          @debts.clear
          @down = false
          @offset = 0.0
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
          schedule(alarm_at)
          value
        end
      end

      # As {#enter}, with one lock that is up to date.
      #
      # @yieldparam lock [MemoryLock]
      # @yieldparam now [Float]
      # @return [Object] the block's value
      def with(key) = with_all([key]) { |(lock), now| yield lock, now }

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
        end
      end

      # @return [Boolean] is it as if the server were away?
      def down? = @down

      # From now on, requests fail, and so do renewals and releases.
      def go_down
        enter do |now|
          catch_up(now)
          @down = true
        end
      end

      # Requests are answered again, and releases that failed are carried out.
      def come_up
        enter do |now|
          catch_up(now)
          @down = false
          settle
        end
      end

      # @raise [UnavailableError]
      def check_reach
        return unless @down

        raise UnavailableError.new("the store in memory is down, as the test says", code: :connect)
      end

      # Called by the scheduler, for which the task then has ended.
      def expire
        enter do |now|
          @scheduled_at = nil
          catch_up(now)
          true
        end
      end

      # @return [Integer]
      def next_fence(now)
        wall = Clock.wall + now - Clock.now
        @fence = [@fence + 1, (wall * MICROSECONDS).round].max
      end

      # @param time [Float] on this backend's clock
      # @return [Float] seconds since 1970, as if the clock had not been moved
      def since_epoch(time) = Clock.wall - (now - time)

      # The methods that {Store::LeaseState} requires of a store. The caller must hold the mutex.

      def prolong(*)
        check_reach
        true
      end

      # The lease is a reader's by now, so readers who wait may fit beside it.
      def downgrade(lease)
        check_reach
        @locks.fetch(lease.key).admit(now)
        true
      end

      # @param keep [Float] seconds that the key stays taken
      def give_back(lease, keep, _deadline)
        check_reach
        carry_out(lease, keep)
        true
      end

      # For a release that failed, or that was cut off. The caller may hold the mutex, or not.
      def give_back_later(lease, keep)
        @debts << [lease, keep]
        @scheduler.call_later { pay_debts } unless @down
      end

      private

      # @return [nil] it is not called again
      def pay_debts
        enter { settle unless @down }
        nil
      end

      def settle
        while (lease, keep = @debts.shift)
          carry_out(lease, keep) if @locks.key?(lease.key)
        end
      end

      # Carries out a release.
      def carry_out(lease, keep)
        if keep.positive? then lease.keep_until(now + keep)
        else @locks.fetch(lease.key).vacate(lease, now)
        end
      end

      def catch_up(now)
        @locks.each_value { |lock| lock.catch_up(now) }
        @locks.delete_if { |_key, lock| lock.idle? }
      end

      # @param alarm_at [Float, nil] on this backend's clock
      def schedule(alarm_at)
        at = alarm_at && real(alarm_at)
        return if at == @scheduled_at

        @scheduled_at = at
        at ? @scheduler.schedule(self, at) : @scheduler.cancel(self)
      end

      def be_known
        @known = true
        MemoryBackend.know(self)
      end

      def alarm_at = @locks.each_value.filter_map(&:alarm_at).min

      def next_event = @locks.each_value.filter_map(&:next_event).min

      # The parent's waiters are not in the child. The parent's leases hold their keys here too,
      # until they expire.
      def start_afresh
        @scheduled_at = nil
        @locks.each_value do |lock|
          lock.waiters.clear
          lock.holders.each(&:forget)
        end
      end
    end
  end
end
