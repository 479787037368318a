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
    # forked child has its own copy. A backend is a task of a {Store::Scheduler}. The scheduler
    # calls {#expire} when a lock has an event that is due, such as the expiry of a lease. If
    # another thread uses the locks first, that thread carries the event out.
    #
    # @api private
    class MemoryBackend
      include AfreshInChild

      MICROSECONDS = 1_000_000

      @named = {}
      @used = []
      @listing = BriefMutex.new # for both lists

      # @param name [String] the same name gives the same backend; an empty name gives a new backend
      def self.named(name)
        return new if name.empty?

        @listing.synchronize { @named[name] ||= new }
      end

      # Empties every backend of this process.
      def self.clear_all
        backends = @listing.synchronize { @named.values | @used.tap { @used = [] } }
        backends.each(&:clear)
      end

      # Remembers a backend that the next {clear_all} must empty.
      def self.know(backend) = @listing.synchronize { @used << backend }

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
        # A backend of another Ractor ends with that Ractor, so {clear_all} ignores it.
        @known = !Events.here?
      end

      # Forgets all locks, and resets the clock. Leases are lost without a notice, and waiters are
      # refused.
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
      def enter
        super do
          value = yield now
          unless @known || (@locks.empty? && @offset.zero?)
            @known = true
            MemoryBackend.know(self)
          end
          schedule(alarm_at)
          value
        end
      end

      # Like {#enter}, but passes one lock to the block. The lock is brought up to date first.
      def with(key) = with_all([key]) { |(lock), now| yield lock, now }

      # Like {#with}, but for several locks. After the block, idle locks are forgotten.
      def with_all(keys)
        enter do |now|
          locks = keys.map { |key| @locks[key] || MemoryLock.new(key, self) }
          locks.each { |lock| lock.catch_up(now) }
          value = yield locks, now
          locks.each { |lock| lock.idle? ? @locks.delete(lock.key) : @locks[lock.key] = lock }
          value
        end
      end

      # Stores the note if there is none of this name yet, or if `replace` is true. An empty note is
      # never stored.
      #
      # @return [String, nil] the note that is now stored; nil: there is none
      def keep_note(name, note, replace)
        enter do
          @notes[name] = note if !note.empty? && (replace || !@notes.key?(name))
          @notes[name]
        end
      end

      def held_keys
        enter do |now|
          catch_up(now)
          @locks.each_value.select { |lock| lock.holders.any? }.map(&:key)
        end
      end

      # Moves the clock forward, from one event to the next.
      def advance(seconds)
        enter do |start|
          while (due = next_event) && due <= start + seconds
            catch_up(due)
          end
          @offset += seconds
        end
      end

      # @return [Boolean] does the store behave as if its server were unreachable?
      def down? = @down

      # From now on, requests, renewals and releases fail.
      def go_down
        enter do |now|
          catch_up(now)
          @down = true
        end
      end

      # From now on, requests are answered again. Releases that failed are carried out.
      def come_up
        enter do |now|
          catch_up(now)
          @down = false
          settle
        end
      end

      def check_reach
        return unless @down

        raise UnavailableError.new("the store in memory is down, as the test says", code: :connect)
      end

      # Called by the scheduler when something is due. Returns true, so that the scheduler does
      # nothing else with this task.
      def expire
        enter do |now|
          @scheduled_at = nil
          catch_up(now)
          true
        end
      end

      def next_fence(now)
        wall = Clock.wall + now - Clock.now
        @fence = [@fence + 1, (wall * MICROSECONDS).round].max
      end

      # @param time [Float] on this backend's clock
      # @return [Float] the moment, in seconds since 1970, that is as long ago as `time` is on this
      #   backend's clock
      def since_epoch(time) = Clock.wall - (now - time)

      # The methods that {Store::LeaseState} requires of a store. The caller must hold the mutex.

      def prolong(*)
        check_reach
        true
      end

      # {Store::LeaseState} has already turned the lease into a read lease, so this only admits
      # waiting readers.
      def downgrade(lease)
        check_reach
        @locks.fetch(lease.key).admit(now)
        true
      end

      def release_deadline = nil # a release here waits for no server

      # @param keep [Float] for how many seconds the key stays taken after the release
      def give_back(lease, keep, _deadline)
        check_reach
        carry_out(lease, keep)
        true
      end

      # Called after a release that failed or was interrupted. The caller may already hold the
      # mutex, so this method does not take it.
      def give_back_later(lease, keep)
        @debts << [lease, keep]
        return if @down

        @scheduler.call_later do
          enter { settle unless @down }
          nil # the scheduler need not call this again
        end
      end

      private

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

      def alarm_at = @locks.each_value.filter_map(&:alarm_at).min

      def next_event = @locks.each_value.filter_map(&:next_event).min

      # The parent's waiters do not exist in the child. But the parent's leases keep their keys
      # taken in the child until they expire.
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
