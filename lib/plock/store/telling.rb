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

      # "mode fence seconds:microseconds record", as a shared lock notes of each holder.
      SHARE_NOTE = /\A([rws]) (\d+) (\d+):(\d+) (.*)\z/m

      # Characters that mean something in a pattern (https://redis.io/docs/latest/commands/keys).
      SPECIAL = /[\\*?\[\]^-]/

      private_constant :MICROSECONDS, :NOTE, :SHARE_NOTE, :SPECIAL

      # @api private
      # @param key [String] as it stands in the store
      # @param owner [String]
      # @return [Boolean] does `owner` hold it?
      # @raise [Error] the store could not be asked
      def lock_held?(key, owner)
        ask_status(key, 0, nil).first == owner
      end

      private

      # @param key [String] as it stands in the store
      # @param shared [Boolean] is it of a kind that can have several holders?
      # @param budget [Float, nil] seconds that it may take; what is not told within it is left out
      # @return [Array(Array, Array), nil] holders, each with seconds left, fence, since, host, pid, thread, label, mode; waiters in
      #   order, each with host, pid, thread, label, since, mode. nil: nothing is known of it
      def examine(key, shared, budget = nil) = examine_others(nil, key, shared, budget)

      # @param own [String, nil] the token of one who gave up, and may be in the queue still
      def examine_others(own, key, shared, budget)
        holders, waiters = shared ? examine_shared(key, budget, own) : examine_single(key, budget, own)
        [holders, waiters] unless holders.empty? && waiters.empty?
      end

      def examine_single(key, budget, own = nil)
        value, left, note, count, *told = ask_status(key, 0, budget)
        told += ask_status(key, told.size / 2, nil).drop(4) while told.size / 2 < count && !told.empty? && budget.nil?
        waiters = told.each_slice(2).filter_map { |ticket, record| waiter(ticket, record, nil) unless own?(record, own) }
        [value.empty? ? [] : [[seconds(left), *facts(note, value), nil]], waiters]
      end

      # Who came and went between two pieces may be told twice, or not at all, but not as something else.
      def examine_shared(key, budget, own = nil)
        holders, waiters, told = [], [], 0
        loop do
          inside, waiting, *items = ask_shared_status(key, told, budget)
          items = items.each_slice(2).to_a
          holding = [inside - told, 0].max
          holders.concat(items.first(holding).map { |left, note| holder(left, note) })
          others = items.drop(holding).reject { |_ticket, text| own?(text, own) }
          waiters.concat(others.map { |ticket, text| waiter(ticket, *text.b.split(" ", 2).reverse) })
          told += items.size
          return [in_order(holders), waiters] if budget || items.empty? || told >= inside + waiting
        end
      end

      # A record ends with the value, in which the token stands.
      def own?(record, own)
        !own.nil? && !own.empty? && record.b.include?(own)
      end

      # The store has them by their ends.
      def in_order(holders)
        holders.sort_by { |_left, fence| fence || Float::INFINITY }
      end

      # @param prefix [String]
      # @yieldparam key [String] each that is held all the time exactly once
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

      # @param name [String] of a key, which is neither a lock nor anything of one
      # @param note [String] empty: only look
      # @return [String, nil]
      def keep_note(name, note, replace)
        kept = ask_note(name, note, replace)
        kept unless kept.empty?
      end

      # Only what was noted of this very holder: one that is not plock's leaves no note.
      def facts(note, value)
        fence, seconds, microseconds, record = NOTE.match(note.b)&.captures
        *who, owner = record && Record.parse(record)
        return [nil] * 6 unless owner && [owner, owner.tr("-", ".")].include?(value.b) # with dots: taken beyond its release

        [Integer(fence, 10), moment(seconds, microseconds), *who]
      end

      def holder(left, note)
        mode, fence, seconds, microseconds, record = SHARE_NOTE.match(note.b)&.captures
        return [seconds(left), *[nil] * 6, note[0]] unless mode # a place that is kept for one who has been called

        [seconds(left), Integer(fence, 10), moment(seconds, microseconds), *who(record), mode]
      end

      def waiter(ticket, record, share)
        [*who(record), Integer(ticket) / MICROSECONDS, share && share[0]]
      end

      def who(record)
        Record.parse(record)&.first(4) || [nil] * 4
      end

      def seconds(milliseconds)
        milliseconds / 1000.0 unless milliseconds.negative?
      end

      def moment(seconds, microseconds)
        Integer(seconds, 10) + (Integer(microseconds, 10) / MICROSECONDS)
      end
    end
  end
end
