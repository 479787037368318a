# frozen_string_literal: true

require_relative "../clock"
require_relative "lease_group"

module Plock
  module Locking
    # Several keys for one caller, all or none.
    #
    # They are taken in the order of their names in the store. Whoever waits holds none that comes
    # after the one that it waits for, so that no two wait for each other; and it waits for one at a
    # time, so that it stands in nobody's way elsewhere.
    #
    # @api private
    module GroupAcquisition
      KEYS_MAX = 64

      # What of a lease's time may be over when its block begins.
      FRESH = 0.1

      # How an attempt fails that patience has cut short: it was waiting for the store's answer, or
      # for a connection to ask on.
      CUT_SHORT = %i[silent saturated].freeze
      private_constant :CUT_SHORT

      private

      # @yieldparam lease [Lease] on what others held until patience ended; the block's value is the
      #   answer
      # @yieldparam store_key [String]
      # @yieldparam count [Integer] how many were asked for
      # @param waits [Boolean] does it raise where others have one of them?
      def asking_for_all(keys, terms, block, waits:)
        started = Clock.now if Events.listening
        alarm = LossAlarm.for_leases if terms.raises?
        bunch = LeaseGroup.new(leases_on(keys, terms, alarm), terms, self)
        check_own_holds(bunch, terms) if waits && terms.wait.positive?
        taking(bunch, bunch.leases, terms, alarm, block) do
          missing = fill_all(bunch, terms)
          agree unless missing || @agreed
          tell_of_asking_for_all(bunch, missing, terms, Clock.now - started) if started
          next unless missing

          bunch.patience_is_over
          return yield(bunch[missing], missing, bunch.size)
        end
      end

      # @raise [UnsupportedError]
      def check_own_holds(bunch, terms)
        own = OwnHolds.here
        name = bunch.names.find { |store_key| own.in_the_way?(self, store_key, terms.share) } or
          return

        refuse_to_wait_for_itself("#{bunch[name].key.inspect}, one of #{bunch.size} keys,", terms)
      end

      # @return [Hash{String => Lease}] by names in the store; a key that is named again is the one
      #   named first
      def leases_on(keys, terms, alarm)
        unless keys.is_a?(Enumerable)
          raise ArgumentError, "keys must be a list of Strings and Symbols (got #{keys.class})"
        end

        leases = {}
        keys.each { |key| leases[profile.store_key(key).freeze] ||= Lease.new(key, terms, alarm) }
        return leases if leases.size.between?(1, KEYS_MAX)

        raise ArgumentError,
              "keys must be from 1 to #{KEYS_MAX} different ones (got #{leases.size})"
      end

      # @return [String, nil] the name of one that could not be had
      def fill_all(bunch, terms)
        deadline = now + terms.wait
        while (outcome = fill_in_order(bunch, terms, deadline)) == :late
          missing = refresh(bunch, terms, deadline) || bunch.over
          return missing unless missing && left_until(deadline).positive?

          bunch.give_back
        end
        outcome
      end

      # @return [String, :late, nil] nil: all at once; `:late`: one after the other; else the name
      #   of one that could not be had
      def fill_in_order(bunch, terms, deadline)
        names = bunch.names
        while names.any?
          refused = nil
          first = names
          while first.any? && (index = fill_together(first, bunch, terms, deadline))
            return fill_one_by_one(first, bunch, terms, deadline) || :late if index == :apart

            refused = first[index]
            return refused unless left_until(deadline).positive?

            first = first.first(index)
          end
          return (:late unless names.equal?(bunch.names)) unless refused
          return refused unless fill_one(refused, bunch, terms, deadline)

          names = names.drop(first.size + 1)
        end
        :late
      end

      # One attempt. Where the store fails, it may do better a moment later: the attempt counts as
      # refused as long as there is patience.
      #
      # @param names [Array<String>] in the store, in order
      # @return [Integer, :apart, nil] nil: they are taken; a number: of one that others have;
      #   `:apart`: the store cannot take them at once
      def fill_together(names, bunch, terms, deadline)
        bunch.asks_for(names)
        bunch.answered(
          take_all(
            names, terms.ttl, terms.renew, terms.max_hold, terms.label, terms.watch?,
            spent(terms, deadline), left_until(deadline)
          ) { |holds| bunch.granted = holds }
        )
      rescue *Acquisition::STORE_FAILURES => e
        raise unless left_until(deadline).positive? || cut_short?(e, bunch)

        0
      end

      # Did patience end a last, short attempt, on a store that has answered this call before? Then
      # it was refused, as far as is known.
      def cut_short?(error, bunch)
        bunch.heard? && CUT_SHORT.include?(error.code)
      end

      # @return [String, nil] the name of the one that could not be had
      def fill_one_by_one(names, bunch, terms, deadline)
        names.find { |name| !fill_one(name, bunch, terms, deadline) }
      end

      # @return [String, nil] the name of one that is not ours any more, or of which that is not
      #   known
      def refresh(bunch, terms, deadline)
        lost = lost_meanwhile(bunch, terms)
        lost.first unless lost.empty? || fill_together(lost, bunch, terms, deadline).nil?
      rescue *Acquisition::STORE_FAILURES
        raise unless left_until(deadline).positive?

        bunch.names.first
      end

      # Leases that are old already, or were there before another one had to be waited for, get
      # their full time again.
      #
      # @return [Array<String>] the names of those that are not ours any more
      def lost_meanwhile(bunch, terms)
        holds = bunch.leases.map(&:hold)
        since = [
          Clock.now - (terms.ttl * FRESH), *holds.select(&:contended?).map(&:acquired_at)
        ].max
        lost =
          bunch.names.reject do |name|
            (hold = bunch[name].hold).acquired_at >= since || hold.extend(terms.ttl)
          end
        lost.each { |name| bunch[name].hold = nil }
      end

      # @return [Object, nil] the hold
      def fill_one(name, bunch, terms, deadline)
        fill(bunch[name], name, terms, left_until(deadline), spent(terms, deadline))
      rescue UnavailableError => e
        raise unless cut_short?(e, bunch) && !left_until(deadline).positive?
      end

      # @return [Float] seconds since the call began
      def spent(terms, deadline)
        [terms.wait - (deadline - now), 0.0].max
      end

      def left_until(deadline)
        [deadline - now, 0.0].max
      end

      # @return [Float] on the clock that patience is measured by
      def now
        Clock.now
      end

      def tell_of_asking_for_all(bunch, missing, terms, waited)
        (missing ? [missing] : bunch.names).each do |name|
          tell_of_asking(bunch[name], name, terms, waited)
        end
      end
    end
  end
end
