# frozen_string_literal: true

module Model
  # The scripts of locks with several holders. Compare them with
  # ext/plock/core/scripts/shared_*.lua and parts/share.lua.
  module SharedServer
    def carry_out_shared(request)
      value = request.value
      case request.op
      when :acquire then shared_acquire(value, request.ticket)
      when :release then shared_release(value, nil)
      when :keep then shared_release(value, Server::KEEP)
      when :leave then shared_leave(value, false)
      when :undo then shared_leave(value, true)
      when :extend then shared_extend(value)
      when :downgrade then shared_downgrade(value)
      end
    end

    # ticket: nil if the client does not queue, 0 if it asks for a new ticket.
    def shared_acquire(value, ticket)
      return check_order(value) || admit(value) if @expires.nil? && queue.empty?

      sweep
      lost = ticket&.positive? && queue.none? { |_, other| other == value }
      mine = called = claim(value, ticket)
      if mine then queue.reject! { |_, other| other == value }
      elsif ticket&.positive? then enqueue(value, ticket)
      end
      @tries = scenario.tries
      mine ||= call_those_who_fit(value)
      mine = comes_next?(value) if mine != true && mine != called && mine != :unfinished &&
                                   admits?(value)
      unfinished = mine == :unfinished
      mine = called || mine == true
      check_order(value) if mine && !called # a called client's order has been checked
      mine ? admit(value) : refuse(value, ticket, lost, unfinished)
    end

    def shared_release(value, keep)
      ours = place_of(value)
      ours = nil unless ours&.left&.positive?
      waited_for = queue.any?
      remove(value, false) unless keep # removes the place even if the lease has expired
      tell_end(value, ours, keep)
      return unless waited_for || keep

      sweep
      return keep_taken(value, keep) if ours && keep

      @tries = scenario.tries
      call_those_who_fit if waited_for
      nil
    end

    def shared_leave(value, doubt)
      first = queue.first&.last == value
      tell { "server: #{name(value)} leaves" }
      queue.reject! { |_, other| other == value }
      sweep
      remove(value, true) if rules[:leave_place]
      remove(value, false) if doubt
      return unless rules[:leave_admits]

      @tries = scenario.tries
      called = call_those_who_fit
      if [0, :unfinished].include?(called) && first && rules[:leave_tells]
        tell_two(time_until_change)
      end
      nil
    end

    def shared_extend(value)
      place = place_of(value)
      return [:lost] unless place&.left&.positive? || !rules[:only_live]

      tell { "server prolongs the lease of #{name(value)}" }
      put(
        Place.new(
          value, false, scenario.ttl, place&.kept, place ? place.mode : share_of(value)[0], 0
        )
      )
      outlast
      [:extended]
    end

    def shared_downgrade(value)
      place = place_of(value)
      return [:lost] unless place&.left&.positive?

      tell { "server makes a reader of #{name(value)}" }
      put(place.dup.tap { |copy| copy.mode = "r" })
      @tries = scenario.tries
      call_those_who_fit if rules[:downgrade_admits]
      [:downgraded]
    end

    private

    # Returns this client's place if the client was called, or if its earlier request got the
    # lease.
    def claim(value, ticket)
      return if ticket.nil? && !rules[:claim_plainly]

      place_of(value) || (rules[:claim_place] ? remove(value, true) : baton_of(value))
    end

    # The place of a lease. A kept place is left out, because no client knows its value any more.
    def place_of(value) =
      inside.find { |place| place.value == value && !place.baton && !place.kept }

    def baton_of(value) = inside.find { |place| place.value == value && place.baton }

    def put(place)
      inside.reject! do |other|
        other.value == place.value && other.baton == place.baton && other.kept == place.kept
      end
      inside.push(place.freeze)
    end

    def remove(value, baton)
      place = baton ? baton_of(value) : place_of(value)
      inside.delete(place) if place
    end

    # Removes the holders whose leases have expired.
    def sweep
      inside.select! { |place| place.left.positive? } if rules[:sweep]
      @expires = nil if inside.empty?
    end

    # Makes the key last as long as the longest place.
    def outlast
      @expires = inside.map(&:left).max if rules[:keys_last]
    end

    # The time until the first lease may expire, which no message announces.
    def time_until_change = [inside.map(&:left).min, 1].compact.max

    def share_of(value) = scenario.shares[owner(value)]

    def limit(share) = LIMITS.fetch(share)

    LIMITS = { "r" => Float::INFINITY, "w" => 1, "s1" => 1, "s2" => 2, "s3" => 3 }.freeze
    private_constant :LIMITS

    def admits?(value)
      share = share_of(value)
      return true if inside.empty?

      (inside.size < limit(share) || !rules[:within_limit]) &&
        (inside.min_by(&:left).mode == share[0] || !rules[:one_mode])
    end

    # Finds the first waiter that listens, tells it when to look, and removes the waiters before
    # it. Returns that waiter, or nil if none listens. Returns :unfinished if one call may not try
    # any more waiters.
    def tell_first(time)
      while (first = queue.first)
        return :unfinished if @tries == 0

        @tries -= 1 if @tries
        return first if publish(:look, first[1], time)

        queue.shift
      end
    end

    # Tells the first two waiters when to look, because the first one may be frozen, or may be
    # giving up.
    def tell_two(time)
      first = tell_first(time)
      second = queue[1]
      if first && first != :unfinished && second && rules[:tell_both]
        publish(:look, second[1], time)
      end
    end

    # Gives waiters their turn, in order, while the lock has room for them. Returns true when it
    # comes to `mine`, the caller's own place. Otherwise it returns how many waiters got their turn,
    # or :unfinished if none did because the script reached its limit of tries.
    def call_those_who_fit(mine = nil)
      called = 0
      unfinished = false
      while (first = queue.first) && admits?(first[1])
        break if (unfinished = @tries == 0 && first[1] != mine)

        queue.shift
        return true if first[1] == mine

        @tries -= 1 if @tries
        next unless publish(:turn, first[1])

        check_order(first[1])
        if rules[:baton_inside]
          put(Place.new(first[1], true, scenario.baton, nil, share_of(first[1])[0], 0))
        end
        called += 1
        break unless rules[:call_several]
      end
      return unfinished ? :unfinished : called if called.zero?

      outlast
      tell_first(scenario.baton) if rules[:calls_stand_by]
      called
    end

    # Is this client, for which there is room, also the next one? It is if no running waiter is
    # before it.
    def comes_next?(value)
      loop do
        return true unless rules[:strict_order]

        first = queue.first
        return true unless first
        return false unless rules[:probe]

        told = tell_first(time_until_change)
        return false if told == first
        return :unfinished if told == :unfinished

        passed = call_those_who_fit(value)
        return passed if passed == true || passed == :unfinished
        return false unless admits?(value)
      end
    end

    def admit(value)
      share = share_of(value)
      fence = number_lease
      tell { "server lets #{name(value)} in (#{share}), fence #{fence}" }
      client = client_of(value)
      client.place = nil if client.value == value
      put(Place.new(value, false, scenario.ttl, nil, share[0], 0))
      @expires ||= scenario.ttl
      outlast
      return [:held] if queue.empty?

      call_those_who_fit if rules[:admitted_calls] # with the tries that remain
      [:held, rules[:tell_change] ? time_until_change : nil]
    end

    def refuse(value, ticket, lost, unfinished)
      ticket = enqueue(value, ticket) if ticket
      left = time_until_change
      left = [left, scenario.baton].min if rules[:watch_first] && admits?(value)
      left = 0 if unfinished
      tell { "server refuses #{name(value)}: #{left} left#{", ticket #{ticket}" if ticket}" }
      [:refused, left, ticket, true, lost]
    end

    def keep_taken(value, span)
      put(remove(value, false).dup.tap { |place| [place.left = span, place.kept = true] })
      outlast
      tell_two(time_until_change) if rules[:tell_kept]
      nil
    end

    def tell_end(value, ours, keep)
      tell do
        if !ours then "server: the time of #{name(value)} was over"
        elsif keep then "server keeps the place of #{name(value)} taken for #{keep} more"
        else "server releases #{name(value)}"
        end
      end
    end

    def age_shares
      inside.map! { |place| place.dup.tap { |copy| copy.left -= 1 if copy.left.positive? } }
      return unless @expires

      @expires -= 1
      return if @expires.positive?

      tell { "the lock key expires" }
      @expires = nil
      inside.clear
    end
  end
end
