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

      # Seconds. A store that has not answered for so long is silent, whatever cuts the attempt
      # short.
      TIME_TO_ANSWER = 0.1

      private_constant :CUT_SHORT, :TIME_TO_ANSWER

      # The attempt with which a call began, in C.
      #
      # * `began`: when, on {Clock}
      # * `answer`: the store's, as {LeaseGroup#answered} has it, or an {Error}
      Attempt = Struct.new(:began, :answer)

      private

      # @param first [Attempt, nil]
      def waiting_for_all(keys, options, block, first = nil)
        asking_for_all(keys, options, block, first, raises: true) do |lease, store_key, count|
          raise_timeout(
            "#{lease.key.inspect}, one of #{count} keys,", lease.key, store_key, options.wait,
            lease.waited_with
          )
        end
      end

      # @param first [Attempt, nil]
      def trying_all(keys, options, block, first = nil)
        asking_for_all(keys, options, block, first, raises: false) { nil }
      end

      # @yieldparam lease [Lease] on the key that others held until `wait:` ended; the block's
      #   value is returned
      # @yieldparam store_key [String]
      # @yieldparam count [Integer] how many were asked for
      # @param first [Attempt, nil] that has been made
      # @param raises [Boolean] does the call raise if others held one of them until `wait:` ended?
      def asking_for_all(keys, options, block, first, raises:)
        began = first&.began || now
        started = Clock.now if Events.listening
        alarm = LossAlarm.for_leases if options.raises?
        group = LeaseGroup.new(leases_on(keys, options, alarm), options, self, first)
        check_own_holds(group, options) if raises && options.wait.positive?
        taking(group, group.leases, options, alarm, block) do
          missing = nil
          first_name = group.names.first
          telling_of_call(started, group[first_name], first_name, options, group.size) do
            missing = fill_all(group, options, began + options.wait)
            agree unless missing || @agreed
            tell_of_asking_for_all(group, missing, options, Clock.now - started) if started
            !missing
          end
          next unless missing

          group.patience_is_over
          return yield(group[missing], missing, group.size)
        end
      end

      # @raise [UnsupportedError]
      def check_own_holds(group, options)
        name = group.names.find { |each| OwnHolds.in_the_way?(self, each, options.share) } or return

        refuse_to_wait_for_itself("#{group[name].key.inspect}, one of #{group.size} keys,", options)
      end

      # @return [Hash{String => Lease}] by store keys; a repeated key counts once
      def leases_on(keys, options, alarm)
        unless keys.is_a?(Enumerable)
          raise ArgumentError, "keys must be a list of Strings and Symbols (got #{keys.class})"
        end

        leases = {}
        keys.each do |key|
          leases[config.store_key(key).freeze] ||= Lease.new(key, options, alarm).wait_for_others
        end
        return leases if leases.size.between?(1, KEYS_MAX)

        raise ArgumentError,
              "keys must be from 1 to #{KEYS_MAX} different ones (got #{leases.size})"
      end

      # @return [String, nil] a store key that is held by others
      def fill_all(group, options, deadline)
        while (outcome = fill_in_order(group, options, deadline)) == :late
          missing = refresh(group, options, deadline) || group.over
          return missing unless missing && left_until(deadline).positive?

          group.give_back
        end
        outcome
      end

      # @return [String, :late, nil] nil: all at once; `:late`: one after the other; else the name
      #   of one that could not be had
      def fill_in_order(group, options, deadline)
        names = group.names
        while names.any?
          refused = nil
          first = names
          while first.any? && (index = fill_together(first, group, options, deadline))
            return fill_one_by_one(first, group, options, deadline) || :late if index == :apart

            refused = first[index]
            return refused unless left_until(deadline).positive?

            first = first.first(index)
          end
          return (:late unless names.equal?(group.names)) unless refused
          return refused unless fill_one(refused, group, options, deadline)

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
      def fill_together(names, group, options, deadline)
        group.asks_for(names)
        asked = now
        group.answered(
          group.first_answer do
            take_all(
              names, options.ttl, options.renew, options.max_hold, options.label, options.watch?,
              spent(options, deadline), left_until(deadline), options.replicas
            ) { |holds| group.granted = holds }
          end
        )
      rescue *Acquisition::STORE_FAILURES => e
        raise unless left_until(deadline).positive? || cut_short?(e, group, options, asked)

        0
      end

      # Did the end of `wait:` cut short the last attempt, on a store that has answered before?
      # Then it counts as refused. The key may be at another server than those before it.
      #
      # @param asked [Float] when the attempt began
      def cut_short?(error, group, options, asked)
        options.wait.positive? && group.heard? && CUT_SHORT.include?(error.code) &&
          now - asked < TIME_TO_ANSWER
      end

      # @return [String, nil] the store key that is held by others
      def fill_one_by_one(names, group, options, deadline)
        names.find { |name| !fill_one(name, group, options, deadline) }
      end

      # @return [String, nil] the store key of a lease that is lost or in doubt
      def refresh(group, options, deadline)
        lost = lost_meanwhile(group, options)
        lost.first unless lost.empty? || fill_together(lost, group, options, deadline).nil?
      rescue *Acquisition::STORE_FAILURES
        raise unless left_until(deadline).positive?

        group.names.first
      end

      # Renews the leases that are old, or older than the wait for another key, for their full TTL.
      #
      # @return [Array<String>] the store keys of the lost leases
      def lost_meanwhile(group, options)
        holds = group.leases.map(&:hold)
        since = [
          Clock.now - (options.ttl * FRESH), *holds.select(&:contended?).map(&:acquired_at)
        ].max
        lost =
          group.names.reject do |name|
            (hold = group[name].hold).acquired_at >= since || hold.extend(options.ttl)
          end
        lost.each { |name| group[name].hold = nil }
      end

      # @return [Object, nil] the hold
      def fill_one(name, group, options, deadline)
        asked = now
        fill(group[name], name, options, left_until(deadline), spent(options, deadline))
      rescue UnavailableError => e
        raise unless cut_short?(e, group, options, asked) && !left_until(deadline).positive?
      end

      # @return [Float] seconds since the call began
      def spent(options, deadline) = [options.wait - (deadline - now), 0.0].max

      def left_until(deadline) = [deadline - now, 0.0].max

      # @return [Float] on the clock that patience is measured by
      def now = Clock.now

      def tell_of_asking_for_all(group, missing, options, waited)
        group.told = true unless missing
        (missing ? [missing] : group.names).each do |name|
          tell_of_asking(group[name], name, options, waited)
        end
      end
    end
  end
end
