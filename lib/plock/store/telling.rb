# frozen_string_literal: true

require_relative "../record"

module Plock
  class Store
    # Who has what: the answers of the engine made into what {Locking} asks of every store.
    #
    # @api private
    module Telling
      MICROSECONDS = 1_000_000.0

      # "fence seconds:microseconds record", as it was noted at the last acquire.
      NOTE = /\A(\d+) (\d+):(\d+) (.*)\z/m

      # What a lock holds while it is reserved for a waiter that has been called: the waiter's token with colons for dashes.
      BATON = /\h{8}:\h{4}:\h{4}:\h{4}:\h{12}/

      # Characters that mean something in a pattern (https://redis.io/docs/latest/commands/keys).
      SPECIAL = /[\\*?\[\]^-]/

      private_constant :MICROSECONDS, :NOTE, :BATON, :SPECIAL

      private

      # @param key [String] as it stands in the store
      # @param budget [Float, nil] seconds that it may take
      # @return [Array, nil] held?, seconds left, fence, since, host, pid, thread, label, waiters; nil: nothing is known of it
      def examine(key, budget = nil)
        value, left, note, count, *first = ask_status(key, 0, budget)
        waiters = waiters(key, first, count, budget)
        return (waiters.empty? ? nil : [false, nil, nil, nil, nil, nil, nil, nil, waiters]) if value.empty?

        [true, left.negative? ? nil : left / 1000.0, *facts(note, value), waiters]
      end

      # @param prefix [String]
      # @yieldparam key [String] each that is held all the time exactly once
      # @return [void]
      def each_key(prefix)
        pattern = "#{prefix.gsub(SPECIAL) { |character| "\\#{character}" }}*"
        seen = {}
        cursor = 0
        loop do
          cursor, *keys = ask_scan(pattern, cursor)
          keys.each { |key| seen[key] ||= yield(key) || true }
          break if (cursor = Integer(cursor, 10)).zero?
        end
      end

      # Only what was noted of this very holder: one that is not plock's leaves no note.
      def facts(note, value)
        fence, seconds, microseconds, record = NOTE.match(note)&.captures
        host, pid, thread, label, owner = record && Record.parse(record)
        return [nil] * 6 unless owner == value

        [Integer(fence, 10), Integer(seconds, 10) + (Integer(microseconds, 10) / MICROSECONDS), host, pid, thread, label]
      end

      # Told in pieces; what is not told within the budget is left out.
      def waiters(key, told, count, budget)
        told += ask_status(key, told.size / 2, nil).drop(4) while told.size / 2 < count && !told.empty? && budget.nil?
        told.each_slice(2).map { |ticket, record| [*Record.parse(record)&.first(4), Integer(ticket, 10) / MICROSECONDS] }
      end
    end
  end
end
