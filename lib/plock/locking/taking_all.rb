# frozen_string_literal: true

require_relative "../clock"
require_relative "bunch"

module Plock
  module Locking
    # Several keys for one caller, all or none.
    #
    # They are taken in the order of their names in the store. Whoever waits holds none that comes after the one that it waits for,
    # so that no two wait for each other; and it waits for one at a time, so that it stands in nobody's way elsewhere.
    #
    # @api private
    module TakingAll
      KEYS_MAX = 64

      # What of a lease's time may be over when its block begins.
      FRESH = 0.1

      private

      # @yieldparam key [String, Symbol] what others held until patience ended; the block's value is the answer
      # @yieldparam store_key [String]
      # @yieldparam count [Integer] how many were asked for
      def asking_for_all(keys, terms, block)
        started = Clock.now if Events.listening
        alarm = LossAlarm.new if terms.raises?
        leases = distinct(keys).transform_values { |key| Lease.new(key, terms, alarm) }
        bunch = Bunch.new(leases.values, terms) { |holds, keep, budget| release_all(holds, keep, budget) }
        taking(bunch, bunch.leases, terms, alarm, block) do
          missing = fill_all(leases.sort_by(&:first), bunch, terms)
          tell_of_asking_for_all(leases, missing, terms, Clock.now - started) if started
          return yield(leases[missing].key, missing, leases.size) if missing
        end
      end

      # @return [Hash{String => String, Symbol}] names in the store, with the keys as they were named first
      def distinct(keys)
        raise ArgumentError, "keys must be a list of Strings and Symbols (got #{keys.class})" unless keys.is_a?(Enumerable)

        names = keys.each_with_object({}) { |key, found| found[profile.store_key(key).freeze] ||= key }
        return names if names.size.between?(1, KEYS_MAX)

        raise ArgumentError, "keys must be from 1 to #{KEYS_MAX} different ones (got #{names.size})"
      end

      # @param pairs [Array<Array(String, Lease)>] by their names in the store, in order
      # @return [String, nil] the name of one that could not be had
      def fill_all(pairs, bunch, terms)
        deadline = now + terms.wait
        loop do
          outcome = fill_in_order(pairs, terms, deadline)
          return outcome unless outcome == :late

          lost = lost_meanwhile(pairs, terms)
          return if lost.empty? || fill_together(lost, terms, deadline).nil?
          return lost.first.first unless left_until(deadline).positive?

          bunch.give_back
        end
      end

      # @return [String, :late, nil] nil: all at once; `:late`: one after the other; else the name of one that could not be had
      def fill_in_order(all, terms, deadline)
        pairs = all
        while pairs.any?
          refused = nil
          first = pairs
          while first.any? && (index = fill_together(first, terms, deadline))
            return fill_one_by_one(first, terms, deadline) || :late if index == :apart

            refused = first[index]
            return refused.first unless left_until(deadline).positive?

            first = first.first(index)
          end
          return (:late unless pairs.equal?(all)) unless refused
          return refused.first if fill_one_by_one([refused], terms, deadline)

          pairs = pairs.drop(first.size + 1)
        end
        :late
      end

      # One attempt. Where the store fails, it may do better a moment later: the attempt counts as refused as long as there is patience.
      #
      # @return [Integer, :apart, nil] nil: they are taken; a number: of one that others have; `:apart`: the store cannot take them at once
      def fill_together(pairs, terms, deadline)
        mask = Taking.mask
        answer = :apart
        begin
          answer = take_all(pairs.map(&:first), terms.ttl, terms.renew, terms.max_hold, terms.label, terms.watch?) do |holds|
            answer = holds
          end
        rescue *Taking::STORE_FAILURES
          raise unless left_until(deadline).positive?

          answer = 0
        ensure
          Thread.handle_interrupt(mask) { pairs.zip(answer) { |(_, lease), hold| lease.hold = hold } if answer.is_a?(Array) }
        end
        answer.nil? ? :apart : (answer unless answer.is_a?(Array))
      end

      # @return [String, nil] the name of the one that could not be had
      def fill_one_by_one(pairs, terms, deadline)
        pairs.find { |store_key, lease| !fill(lease, store_key, terms, left_until(deadline)) }&.first
      end

      # Leases that are old already, or were there before another one had to be waited for, get their full time again.
      #
      # @return [Array<Array(String, Lease)>] those that are not ours any more
      def lost_meanwhile(pairs, terms)
        holds = pairs.map { |_, lease| lease.hold }
        since = [Clock.now - (terms.ttl * FRESH), *holds.select(&:contended?).map(&:acquired_at)].max
        lost = pairs.reject { |_, lease| lease.hold.acquired_at >= since || lease.hold.extend(terms.ttl) }
        lost.each { |_, lease| lease.hold = nil }
      end

      def left_until(deadline)
        [deadline - now, 0.0].max
      end

      # @return [Float] on the clock that patience is measured by
      def now
        Clock.now
      end

      def tell_of_asking_for_all(leases, missing, terms, waited)
        leases.each do |store_key, lease|
          tell_of_asking(lease, store_key, terms, waited) if missing.nil? || missing == store_key
        end
      end
    end
  end
end
