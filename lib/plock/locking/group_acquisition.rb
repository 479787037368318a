# frozen_string_literal: true

require_relative "../clock"
require_relative "lease_group"

module Plock
  module Locking
    # Several keys for one caller, all or none.
    #
    # They are acquired in the order of their store keys. A waiter holds no key that comes after
    # the one that it waits for, so two waiters never deadlock. It waits for one key at a time, so
    # it blocks no other queue.
    #
    # @api private
    module GroupAcquisition
      KEYS_MAX = 64

      # The share of a lease's TTL that may have passed when its block begins.
      FRESH = 0.1

      # The codes of an attempt that the end of `wait:` cut short: it waited for the store's
      # answer, or for a connection.
      CUT_SHORT = %i[silent saturated].freeze
      private_constant :CUT_SHORT

      private

      # @yieldparam lease [Lease] on the key that others held until `wait:` ended; the block's
      #   value is returned
      # @yieldparam store_key [String]
      # @yieldparam count [Integer] how many were asked for
      # @param waits [Boolean] does it raise if others hold one of them?
      def asking_for_all(keys, terms, block, waits:)
        started = Clock.now if Events.listening
        alarm = LossAlarm.for_leases if terms.raises?
        group = LeaseGroup.new(leases_on(keys, terms, alarm), terms, self)
        check_own_holds(group, terms) if waits && terms.wait.positive?
        taking(group, group.leases, terms, alarm, block) do
          missing = fill_all(group, terms)
          agree unless missing || @agreed
          tell_of_asking_for_all(group, missing, terms, Clock.now - started) if started
          next unless missing

          group.patience_is_over
          return yield(group[missing], missing, group.size)
        end
      end

      # @raise [UnsupportedError]
      def check_own_holds(group, terms)
        name = group.names.find { |each| OwnHolds.in_the_way?(self, each, terms.share) } or return

        refuse_to_wait_for_itself("#{group[name].key.inspect}, one of #{group.size} keys,", terms)
      end

      # @return [Hash{String => Lease}] by store keys; a repeated key counts once
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

      # @return [String, nil] a store key that is held by others
      def fill_all(group, terms)
        deadline = now + terms.wait
        while (outcome = fill_in_order(group, terms, deadline)) == :late
          missing = refresh(group, terms, deadline) || group.over
          return missing unless missing && left_until(deadline).positive?

          group.give_back
        end
        outcome
      end

      # @return [String, :late, nil] nil: all at once; `:late`: one after the other; else the name
      #   of one that could not be had
      def fill_in_order(group, terms, deadline)
        names = group.names
        while names.any?
          refused = nil
          first = names
          while first.any? && (index = fill_together(first, group, terms, deadline))
            return fill_one_by_one(first, group, terms, deadline) || :late if index == :apart

            refused = first[index]
            return refused unless left_until(deadline).positive?

            first = first.first(index)
          end
          return (:late unless names.equal?(group.names)) unless refused
          return refused unless fill_one(refused, group, terms, deadline)

          names = names.drop(first.size + 1)
        end
        :late
      end

      # Makes one attempt. A failure of the store counts as a refusal until `wait:` ends, since the
      # next attempt may succeed.
      #
      # @param names [Array<String>] in the store, in order
      # @return [Integer, :apart, nil] nil: they are taken; a number: of one that others have;
      #   `:apart`: the store cannot take them at once
      def fill_together(names, group, terms, deadline)
        group.asks_for(names)
        group.answered(
          take_all(
            names, terms.ttl, terms.renew, terms.max_hold, terms.label, terms.watch?,
            spent(terms, deadline), left_until(deadline)
          ) { |holds| group.granted = holds }
        )
      rescue *Acquisition::STORE_FAILURES => e
        raise unless left_until(deadline).positive? || cut_short?(e, group)

        0
      end

      # Did the end of `wait:` cut short the last attempt, on a store that has answered before?
      # Then it counts as refused.
      def cut_short?(error, group)
        group.heard? && CUT_SHORT.include?(error.code)
      end

      # @return [String, nil] the store key that is held by others
      def fill_one_by_one(names, group, terms, deadline)
        names.find { |name| !fill_one(name, group, terms, deadline) }
      end

      # @return [String, nil] the store key of a lease that is lost or in doubt
      def refresh(group, terms, deadline)
        lost = lost_meanwhile(group, terms)
        lost.first unless lost.empty? || fill_together(lost, group, terms, deadline).nil?
      rescue *Acquisition::STORE_FAILURES
        raise unless left_until(deadline).positive?

        group.names.first
      end

      # Renews the leases that are old, or older than the wait for another key, for their full TTL.
      #
      # @return [Array<String>] the store keys of the lost leases
      def lost_meanwhile(group, terms)
        holds = group.leases.map(&:hold)
        since = [
          Clock.now - (terms.ttl * FRESH), *holds.select(&:contended?).map(&:acquired_at)
        ].max
        lost =
          group.names.reject do |name|
            (hold = group[name].hold).acquired_at >= since || hold.extend(terms.ttl)
          end
        lost.each { |name| group[name].hold = nil }
      end

      # @return [Object, nil] the hold
      def fill_one(name, group, terms, deadline)
        fill(group[name], name, terms, left_until(deadline), spent(terms, deadline))
      rescue UnavailableError => e
        raise unless cut_short?(e, group) && !left_until(deadline).positive?
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

      def tell_of_asking_for_all(group, missing, terms, waited)
        (missing ? [missing] : group.names).each do |name|
          tell_of_asking(group[name], name, terms, waited)
        end
      end
    end
  end
end
