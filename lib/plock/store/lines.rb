# frozen_string_literal: true

require_relative "turns"

module Plock
  class Store
    # Those of this process who wait, key by key, in order. Only the first of each asks the store.
    #
    # @api private
    class Lines
      # One who waits.
      Waiter = Struct.new(:turn, :facts)

      def initialize
        @lock = Mutex.new
      end

      # @param facts [Array] host, pid, thread, label, since and mode, as {Status} tells them
      # @return [Waiter]
      def join(key, facts)
        waiter = Waiter.new(Turns::Turn.new, facts).freeze
        enter { (@lines[key] ||= []) << waiter }
        waiter
      end

      # Whoever is first then is called.
      #
      # @return [void]
      def leave(key, waiter)
        enter do
          line = @lines[key] or next
          was_first = line.first.equal?(waiter)
          line.delete_if { |other| other.equal?(waiter) }
          @lines.delete(key) if line.empty?
          line.first if was_first
        end&.turn&.call
      end

      # @return [Boolean] may nobody ask before? Without a waiter: does anybody wait?
      def first?(key, waiter)
        enter { @lines[key]&.first.equal?(waiter) }
      end

      # @return [Boolean]
      def anybody?(key)
        enter { @lines.key?(key) }
      end

      # @return [void]
      def call_first(key)
        enter { @lines[key]&.first }&.turn&.call
      end

      # Something may have been missed: the first of each key is called.
      #
      # @return [void]
      def call_all
        enter { @lines.values.map(&:first) }.each { |waiter| waiter.turn.call }
      end

      # @return [Array<Array>] in order
      def waiters(key)
        enter { (@lines[key] || []).map(&:facts) }
      end

      private

      # Who waited in a parent does not wait here.
      def enter
        Thread.handle_interrupt(Object => :never) do
          @lock.synchronize do
            @lines = {} unless @pid == Process.pid
            @pid = Process.pid
            yield
          end
        end
      end
    end
  end
end
