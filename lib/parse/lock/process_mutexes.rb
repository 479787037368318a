# frozen_string_literal: true

require "plock"
require_relative "claimed_mutex"
require_relative "process_mutex"

module Parse
  module Lock
    # One mutex for each key, within this process. At most {LIMIT} are kept: the one that was used
    # longest ago goes first, but never one that is held, or that a caller has reserved and will
    # take; where all are in use there may be more for a while.
    class ProcessMutexes
      LIMIT = 4096

      # A mutex, the claims of those that hold it, wait for it or will take it, and its face for
      # the outside.
      Entry = ::Struct.new(:mutex, :claims, :face) do
        def idle?
          claims.empty? && !mutex.locked?
        end
      end

      private_constant :Entry

      def initialize(limit = LIMIT)
        @limit = limit
        @lock = ::Mutex.new
        @entries = {}
        @pid = ::Process.pid
      end

      # Takes the key's mutex for as long as the block runs.
      #
      # @param key [String]
      # @param patience [Numeric] seconds
      # @param claim [Object] made for this call
      # @yieldparam held [Boolean] false where patience ended before the mutex was free
      # @return [Object] the block's value
      def hold(key, patience, claim)
        entry = nil
        ::Plock::Interrupts.finally(-> { leave(entry, claim, true) }) do
          alone { entry = reserve(key, claim) }
          yield entry.mutex.take(claim, patience)
        end
      end

      # @param key [String]
      # @return [ProcessMutex]
      def [](key)
        alone { find(key).face }
      end

      # Waits without end.
      #
      # @param key [String]
      # @yield
      # @return [Object] the block's value
      # @raise [ThreadError] this fiber has it already
      def synchronize(key)
        raise ::ThreadError, "deadlock; recursive locking" if owned?(key)

        hold(key, nil, ::Object.new) { yield }
      end

      # Takes the key's mutex until {give_back_own}, or until this thread ends.
      #
      # @param key [String]
      # @param patience [Numeric, nil] seconds; nil: without end
      # @return [Boolean] is it ours now?
      def take(key, patience)
        claim = ::Object.new
        entry = taken = nil
        ::Plock::Interrupts.finally(-> { leave(entry, claim, !taken) }) do
          alone { entry = reserve(key, claim) }
          taken = entry.mutex.take(claim, patience, blockless: true)
        end
      end

      # Gives back what this fiber has taken.
      #
      # @param key [String]
      # @return [Boolean] had it?
      def give_back_own(key)
        peek(key, &:give_back_own)
      end

      # @param key [String]
      # @return [Boolean]
      def locked?(key)
        peek(key, &:locked?)
      end

      # @param key [String]
      # @return [Boolean] is it held by this fiber?
      def owned?(key)
        peek(key, &:owned?)
      end

      # @return [Integer]
      def size
        @entries.size
      end

      # Forgets what is not in use.
      #
      # @return [void]
      def clear
        alone { @entries.delete_if { |_key, entry| entry.idle? } }
      end

      private

      # An interrupt between two lines that change the entries would leave two mutexes for one key.
      def alone(&block)
        ::Thread.handle_interrupt(::Object => :never) { @lock.synchronize(&block) }
      end

      def reserve(key, claim)
        find(key).tap { |entry| entry.claims[claim] = true }
      end

      # Called without interrupts. Where none was reserved, there is nothing to leave.
      def leave(entry, claim, gives_back)
        return unless entry

        entry.mutex.give_back(claim) if gives_back
        @lock.synchronize { entry.claims.delete(claim) }
      end

      def peek(key)
        entry = alone { @entries[key] if @pid == ::Process.pid }
        entry ? yield(entry.mutex) : false
      end

      # What was locked in the parent is no lock of the child's: its holders are threads that do
      # not exist here.
      def find(key)
        start_afresh unless @pid == ::Process.pid
        found = @entries.delete(key)
        make_room unless found
        @entries[key] = found || make(key)
      end

      def make(key)
        Entry.new(ClaimedMutex.new, {}.compare_by_identity, ProcessMutex.new(self, key))
      end

      def start_afresh
        @entries = {}
        @pid = ::Process.pid
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
