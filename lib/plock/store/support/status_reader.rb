# frozen_string_literal: true

require_relative "../../record"
require_relative "../../status"

module Plock
  class Store
    # Reads the engine's answers about holders and waiters.
    #
    # @api private
    module StatusReader
      MICROSECONDS = 1_000_000.0

      # "fence seconds:microseconds record": the note that the last acquire wrote.
      NOTE = /\A(\d+) (\d+):(\d+) (.*)\z/m

      # "mode fence seconds:microseconds record": the note of each holder of a shared lock.
      SHARE_NOTE = /\A([rws]) (\d+) (\d+):(\d+) (.*)\z/m

      # Characters with a special meaning in a pattern (https://redis.io/docs/latest/commands/keys).
      SPECIAL = /[\\*?\[\]^-]/

      private_constant :MICROSECONDS, :NOTE, :SHARE_NOTE, :SPECIAL

      # @param key [String] the raw key in the store
      # @return [Boolean] does `owner` hold the key?
      # @raise [Error] the store failed
      def lock_held?(key, owner) = ask_status(key, false, 0, nil).first == owner

      # @api private
      # @param budget [Float, nil] seconds for one request, whose answer may be incomplete; nil: as
      #   many requests as a complete answer needs
      # @return [Array(Array<Status::Holder>, Array<Status::Waiter>), nil] the holders, and the
      #   waiters in queue order; nil: the key is free
      def examine(key, shared, budget = nil) = examine_others(nil, key, shared, budget)

      private

      # @param own [String, nil] the caller's own token, which may still be in the queue
      def examine_others(own, key, shared, budget)
        holders, waiters =
          shared ? examine_shared(key, budget, own) : examine_single(key, budget, own)
        [holders, waiters] unless holders.empty? && waiters.empty?
      end

      def examine_single(key, budget, own = nil)
        value, left, note, count, *told = ask_status(key, false, 0, budget)
        while told.size / 2 < count && !told.empty? && budget.nil?
          told += ask_status(key, false, told.size / 2, nil).drop(4)
        end
        waiters = told.each_slice(2).reject { |_ticket, record| own?(record, own) }
        waiters.map! { |ticket, record| waiter(ticket, record) }
        [value.empty? ? [] : [only_holder(value, left, note)], waiters]
      end

      # A holder or waiter whose place changes between two requests may be listed twice or not at
      # all, but never with wrong facts.
      def examine_shared(key, budget, own = nil)
        holders, waiters, told = [], [], 0
        loop do
          inside, waiting, *items = ask_status(key, true, told, budget)
          items = items.each_slice(2).to_a
          holding = [inside - told, 0].max
          holders.concat(items.first(holding).map { |left, note| holder(left, note) })
          others = items.drop(holding).reject { |_ticket, text| own?(text, own) }
          waiters.concat(
            others.map { |ticket, text| waiter(ticket, *text.b.split(" ", 2).reverse) }
          )
          told += items.size
          next unless budget || items.empty? || told >= inside + waiting

          # The store returns holders in the order in which their leases end. The fence sorts them
          # in the order in which they acquired the key.
          return [holders.sort_by { |holder| holder.fence || Float::INFINITY }, waiters]
        end
      end

      def break_hold(key, shared, only)
        fences = only&.map { |holder| "#{holder.fence || "-"} " }
        ask_break(key, shared, fences ? " #{fences.join}" : "")
      end

      # A record ends with the waiter's value, which contains the waiter's token.
      def own?(record, own) = !own.nil? && !own.empty? && record.b.include?(own)

      # The server may return the same key in more than one step.
      def keys_after(prefix, cursor)
        pattern = "#{prefix.gsub(SPECIAL) { |character| "\\#{character}" }}*"
        following, *keys = ask_scan(pattern, cursor || 0)
        following = Integer(following, 10)
        [keys, (following unless following.zero?)]
      end

      # @param note [String] empty: the note is only read
      def keep_note(name, note, replace)
        kept = ask_note(name, note, replace)
        kept unless kept.empty?
      end

      # A note counts only if it is about the current holder. Other programs write no note when
      # they take the key, so the note may be an earlier holder's.
      def only_holder(value, left, note)
        fence, *since, record = NOTE.match(note.b)&.captures
        owner = record && Record.parse(record)&.last
        return Status.holder(remaining: seconds(left)) unless owner && same?(owner, value.b)

        noted_holder(left, fence, since, record)
      end

      # If the value has dots instead of dashes, the owner has released the key, but the key stays
      # taken for a while.
      def same?(owner, value) = value == owner || value == owner.tr("-", ".")

      def holder(left, note)
        mode, fence, *since, record = SHARE_NOTE.match(note.b)&.captures
        # Without a mode, the entry is a place reserved for a waiter that has been called.
        return Status.holder(remaining: seconds(left), mode: note[0]) unless mode

        noted_holder(left, fence, since, record, mode)
      end

      def noted_holder(left, fence, since, record, mode = nil)
        Status.holder(remaining: seconds(left), fence: Integer(fence, 10), since: moment(*since),
                      mode: mode, **Record.who(record))
      end

      def waiter(ticket, record, share = nil)
        since = Integer(ticket, exception: false) # other programs may write any score
        Status.waiter(since: since && (since / MICROSECONDS), mode: share && share[0],
                      **Record.who(record))
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
