# frozen_string_literal: true

require_relative "../clock"
require_relative "lease_group"

module Plock
  module Locking
    # Acquires several keys for one caller: all of them, or none.
    #
    # The keys are acquired in the order of their store keys. A waiter never holds a key that
    # comes after the key that it waits for, so two waiters never deadlock. A waiter is in only one
    # wait queue at a time, so its place never holds up the queue of another key.
    #
    # @api private
    module GroupAcquisition
      KEYS_MAX = 64

      # The fraction of a lease's TTL that may have passed when its block begins.
      FRESH = 0.1

      # The error codes of an attempt that was still waiting for the store's answer, or for a
      # connection, when `wait:` ended.
      CUT_SHORT = %i[silent saturated].freeze

      # In seconds. If an attempt has had no answer for this long when `wait:` ends, the call fails
      # with the store's error, and does not count as refused.
      TIME_TO_ANSWER = 0.1

      private_constant :CUT_SHORT, :TIME_TO_ANSWER

      # The first attempt of a call, made in C.
      #
      # * `began`: when the call began, on {Clock}
      # * `answer`: the store's answer, as {LeaseGroup#answered} takes it, or an {Error}
      Attempt = Struct.new(:began, :answer)

      private

      # @param first [Attempt, nil] the first attempt, if it was made in C
      # @param raises [Boolean] does a timeout raise {TimeoutError} instead of returning nil?
      def acquiring_all(keys, options, block, first = nil, raises:)
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
          return unless raises

          lease = group[missing]
          raise_timeout("#{lease.key.inspect}, one of #{group.size} keys,", lease.key, missing,
                        options.wait, lease.waited_with)
        end
      end

      def check_own_holds(group, options)
        name = group.names.find { |each| OwnHolds.in_the_way?(self, each, options.share) } or return

        refuse_to_wait_for_itself("#{group[name].key.inspect}, one of #{group.size} keys,", options)
      end

      # @return [Hash{String => Lease}] by store key; a repeated key counts once
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

      # @return [String, nil] the store key that others hold; nil: all keys are acquired
      def fill_all(group, options, deadline)
        while (outcome = fill_in_order(group, options, deadline)).is_a?(Symbol)
          if outcome == :late
            missing = refresh(group, options, deadline) || group.over
            return missing unless missing && left_until(deadline).positive?
          end

          group.give_back
        end
        outcome
      end

      # @return [String, :late, :lost, nil] nil: all keys were acquired together; `:late`: all were
      #   acquired, but one after another, so the first leases may be old; `:lost`: the acquired
      #   leases were lost, and the call must begin again; a String: the store key that could not be
      #   acquired
      def fill_in_order(group, options, deadline)
        names = group.names
        while names.any?
          refused = nil
          first = names
          while first.any? && (index = fill_together(first, group, options, deadline))
            if index == :apart
              return first.find { |name| !fill_one(name, group, options, deadline) } || :late
            end

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
      # @param names [Array<String>] store keys, in order
      # @return [Integer, :apart, nil] nil: the keys are acquired; a number: the index of a key
      #   that others hold; `:apart`: the store can only acquire these keys one by one
      def fill_together(names, group, options, deadline)
        group.asked = names
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

      # Returns true if an attempt failed only because `wait:` ended before the store answered it.
      # Such an attempt counts as refused. This requires that the store has answered an earlier
      # attempt of the call. An attempt that lasted for TIME_TO_ANSWER counts as a failure of the
      # store: the node that it asked may be silent, even if other nodes have answered.
      #
      # @param asked [Float] when the attempt began
      def cut_short?(error, group, options, asked)
        options.wait.positive? && group.heard? && CUT_SHORT.include?(error.code) &&
          now - asked < TIME_TO_ANSWER
      end

      # @return [String, nil] the store key of a lost lease that could not be acquired again; the
      #   first store key if the store failed; nil: all keys are held
      def refresh(group, options, deadline)
        lost = lost_meanwhile(group, options)
        lost.first unless lost.empty? || fill_together(lost, group, options, deadline).nil?
      rescue *Acquisition::STORE_FAILURES
        raise unless left_until(deadline).positive?

        group.names.first
      end

      # Renews the old leases for their full TTL. A lease is old if FRESH of its TTL has passed,
      # or if it was acquired before a wait for another key ended.
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
        group.drop(lost.map { |name| group[name] })
        lost
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

      # @return [Float] the current time on the clock that measures `wait:`
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
