# frozen_string_literal: true

require "plock"
require "plock/afresh_in_child"
require_relative "claimed_mutex"
require_relative "process_mutex"

module Parse
  module Lock
    # One mutex for each key, within this process. At most {LIMIT} mutexes are kept, and the least
    # recently used mutex is removed first. A mutex that is held or reserved is not removed. If all
    # mutexes are in use, there may be more than {LIMIT} for a while.
    #
    # A forked child holds none of its parent's mutexes, because the threads that hold them do not
    # exist in the child.
    #
    # @api private
    class ProcessMutexes
      include ::Plock::AfreshInChild # masks interrupts, which could leave two mutexes for one key

      LIMIT = 4096

      # A mutex; the claims of its holder, its waiters and the callers that have reserved it; and
      # its face, the {ProcessMutex} that applications see.
      Entry = ::Struct.new(:mutex, :claims, :face) do
        def idle? = claims.empty? && !mutex.locked?
      end

      private_constant :Entry

      def initialize(limit = LIMIT)
        @limit = limit
        @lock = ::Mutex.new
      end

      # Waits for the key's mutex, runs the block, and then releases the mutex. Runs the block even
      # if it did not get the mutex in time.
      #
      # @param patience [Numeric, nil] seconds to wait; nil sets no limit
      # @param claim [Object] unique for this call
      # @yieldparam held [Boolean] whether the mutex is held; false if the time to wait was over
      # @return [Object] the block's value
      def hold(key, patience, claim)
        entry = nil
        ::Plock::Interrupts.finally(-> { leave(entry, claim, true) }) do
          enter { (entry = find(key)).claims[claim] = true }
          yield entry.mutex.take(claim, patience)
        end
      end

      def [](key)
        enter { find(key).face }
      end

      # Holds the key's mutex while the block runs. Waits for it without limit.
      #
      # @return [Object] the block's value
      # @raise [ThreadError] this fiber already holds it
      def synchronize(key)
        raise ::ThreadError, "deadlock; recursive locking" if owned?(key)

        hold(key, nil, ::Object.new) { yield }
      end

      # Takes the key's mutex until {give_back_own}, or until this thread ends.
      #
      # @param patience [Numeric, nil] seconds to wait; nil sets no limit
      # @return [Boolean] whether the mutex is ours now
      def take(key, patience)
        claim = ::Object.new
        entry = taken = nil
        ::Plock::Interrupts.finally(-> { leave(entry, claim, !taken) }) do
          enter { (entry = find(key)).claims[claim] = true }
          taken = entry.mutex.take(claim, patience, blockless: true)
        end
      end

      # Releases the mutex if this fiber holds it.
      #
      # @return [Boolean] whether this fiber held it
      def give_back_own(key) = peek(key, &:give_back_own)

      def locked?(key) = peek(key, &:locked?)

      # @return [Boolean] whether this fiber holds it
      def owned?(key) = peek(key, &:owned?)

      def size = enter { @entries.size }

      # Forgets the mutexes that are not in use.
      def clear
        enter { @entries.delete_if { |_key, entry| entry.idle? } }
      end

      private

      # Requires that interrupts are masked. `entry` is nil if no entry was reserved.
      def leave(entry, claim, gives_back)
        return unless entry

        entry.mutex.give_back(claim) if gives_back
        @lock.synchronize { entry.claims.delete(claim) }
      end

      def peek(key)
        entry = enter { @entries[key] }
        entry ? yield(entry.mutex) : false
      end

      def find(key)
        # one expression removes the entry and adds it at the end, so that no signal handler can
        # run in between
        return @entries[key] = @entries.delete(key) if @entries.key?(key)

        make_room
        @entries[key] = make(key)
      end

      def make(key)
        Entry.new(ClaimedMutex.new, {}.compare_by_identity, ProcessMutex.new(self, key))
      end

      def start_afresh
        @entries = {}
      end

      def make_room
        @entries.each do |key, entry|
          break if @entries.size < @limit

          @entries.delete(key) if entry.idle?
        end
      end
    end
  end
end
