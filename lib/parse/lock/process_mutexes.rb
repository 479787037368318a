# frozen_string_literal: true

require_relative "process_mutex"

module Parse
  module Lock
    # One {ProcessMutex} for each key, within this process. At most {LIMIT} are kept: the one that was used longest ago goes
    # first, but never one that is held, or that somebody has reserved and is about to take; where all are in use there
    # may be more for a while.
    class ProcessMutexes
      LIMIT = 4096

      # A mutex, and the claims of those who hold it, wait for it or are about to.
      Entry = Struct.new(:mutex, :claims) do
        def idle?
          claims.empty? && !mutex.locked?
        end
      end

      private_constant :Entry

      def initialize(limit = LIMIT)
        @limit = limit
        @lock = ::Mutex.new
        @entries = {}
        @pid = Process.pid
      end

      # Takes the key's mutex for as long as the block runs.
      #
      # @param key [String]
      # @param patience [Numeric] seconds
      # @param claim [Object] made for this call
      # @yieldparam held [Boolean] false where patience ended before the mutex was free
      # @return [Object] the block's value
      def hold(key, patience, claim)
        reserved(key, claim) do |mutex|
          yield mutex.take(claim, patience)
        ensure
          mutex.give_back(claim)
        end
      end

      # @param key [String]
      # @return [ProcessMutex] may be forgotten as long as nobody has locked it; {synchronize} does not let that happen
      def [](key)
        @lock.synchronize { find(key).mutex }
      end

      # Waits without end.
      #
      # @param key [String]
      # @return [Object] the block's value
      # @raise [ThreadError] this fiber has it already
      def synchronize(key, &block)
        reserved(key, Object.new) { |mutex| mutex.synchronize(&block) }
      end

      # @return [Integer]
      def size
        @entries.size
      end

      # Forgets what nobody uses.
      #
      # @return [void]
      def clear
        @lock.synchronize { @entries.delete_if { |_key, entry| entry.idle? } }
      end

      private

      def reserved(key, claim)
        entry = nil
        @lock.synchronize do
          entry = find(key)
          entry.claims[claim] = true
        end
        yield entry.mutex
      ensure
        Thread.handle_interrupt(Object => :never) { @lock.synchronize { entry&.claims&.delete(claim) } }
      end

      # What was locked in the parent is no lock of the child's: its holders are threads that do not exist here.
      def find(key)
        start_afresh unless @pid == Process.pid
        found = @entries.delete(key)
        make_room unless found
        @entries[key] = found || Entry.new(ProcessMutex.new, {}.compare_by_identity)
      end

      def start_afresh
        @entries = {}
        @pid = Process.pid
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
