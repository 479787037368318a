# frozen_string_literal: true

module Model
  # The server's scripts. Each runs in one step. Compare them with ext/plock/core/scripts/*.lua.
  module Server
    # A request arrives, and the server executes it. If the client can still receive a reply, the
    # reply is sent.
    def execute(index)
      request = requests.delete_at(index)
      value = request.value
      reply = request.old ? on_old_primary { answer(request) } : answer(request)
      forget_old_primary if request.old
      client = client_of(value)
      client.reply = reply if reply && !request.late && client.value == value && client.age
    end

    def answer(request)
      return subscribe(request.value) if request.op == :subscribe

      @late_to_old = request.old == Failover::NEW
      scenario.shared ? carry_out_shared(request) : carry_out(request)
    end

    def carry_out(request)
      value = request.value
      case request.op
      when :acquire then acquire(value, request.ticket)
      when :release then release(value)
      when :keep then keep(value)
      when :leave then leave(value, false)
      when :undo then leave(value, true)
      when :extend then extend_lease(value)
      end
    end

    # ticket: nil if the client does not queue, 0 if it asks for a new ticket.
    def acquire(value, ticket)
      lost = ticket&.positive? && queue.none? { |_, other| other == value }
      left = nil
      if lock.nil? && queue.empty?
        return grant(value)
      elsif lock.nil? && window_open? # the lock is left free for older clients
        left = time_left
      elsif lock.nil? # the last holder died, or did not use plock
        enqueue(value, ticket) if ticket&.positive?
        passed = pass(value)
        return grant(value) unless passed

        left = 0 if passed == :unfinished
      elsif ticket && lock.value == value && !lock.kept # its turn, or an earlier acquire got it
        queue.reject! { |_, other| other == value }
        return grant(value)
      end
      left ||= lock.left
      ticket = enqueue(value, ticket) if ticket
      tell { "server refuses #{name(value)}: #{left} left#{", ticket #{ticket}" if ticket}" }
      [
        :refused, left, ticket, lock.nil? || lock.baton || client_of(lock.value).kind != :older,
        lost
      ]
    end

    def release(value)
      return tell_nothing(:release, value) unless theirs?(value)

      if queue.any? && window_open?
        tell { "server releases #{name(value)} and leaves the lock free until the window ends" }
        @lock = nil
        tell_to_look(window_rest)
      else
        free_lock(:release, value) { "server releases #{name(value)}: the lock is free" }
      end
      nil
    end

    # A release with at_least:. The lock stays taken for some time after the lease.
    def keep(value)
      return tell_nothing(:keep, value) unless theirs?(value)

      tell { "server keeps the lock taken for #{KEEP} more" }
      lock.left = KEEP
      lock.kept = true
      tell_to_look(KEEP) if queue.any?
      nil
    end
    KEEP = 1

    def leave(value, doubt)
      first = queue.first&.last == value
      queue.reject! { |_, other| other == value }
      unless lock && lock.value == value && (lock.baton || (doubt && !lock.kept))
        tell { "server: #{name(value)} is not in the queue any more" }
        tell_to_look(time_left) if first && queue.any? && rules[:replace_watch]
        return
      end
      tell { "server: #{name(value)} leaves, and what it had goes on" }
      free_lock(doubt ? :undo : :leave, value)
      nil
    end

    def extend_lease(value)
      return [:lost] unless theirs?(value)

      tell { "server prolongs the lease of #{name(value)}" }
      lock.left = scenario.ttl
      [:extended, nil, nil, nil, nil, line_here]
    end

    # The requests of older clients: SETNX, and a release that deletes the key if the value
    # matches.
    def set_if_free(value) = lock ? false : (@lock = Lock.new(value, false, scenario.ttl))

    def delete_if(value)
      @lock = nil if lock && !lock.baton && lock.value == value
    end

    def subscribe(value)
      node = home(owner(value))
      return if node.link != :sent

      node.heard = true
      node.inbox << [:subscribed]
      nil
    end

    private

    # Does this value hold a lease? A baton is not a lease. Neither is a kept lock, whose value no
    # client knows any more.
    def theirs?(value) = lock && !lock.baton && !lock.kept && lock.value == value

    # Hands the lock over, or deletes it. If the script leaves work unfinished, a caller that still
    # runs asks again.
    def free_lock(operation, value, &text)
      case pass
      when false
        tell(&text) if text
        @lock = nil
      when :unfinished
        tell { "server: more dead waiters are in line; #{name(value)} must ask again" }
        post(operation, value) if rules[:go_on] && home(owner(value)).state == :up
      end
    end

    # Makes the lock a baton for the first waiter whose process still listens, and tells the next
    # waiter when to look. Returns false if no such waiter is left, or if that waiter is `mine`, the
    # caller. Returns :unfinished if one call cannot pass over all dead waiters. Then the lock
    # expires soon.
    def pass(mine = nil)
      tries = scenario.tries
      until queue.empty?
        if tries == 0 && queue.first[1] != mine
          lock.left = [lock.left, scenario.baton].min if lock
          return :unfinished
        end
        first = queue.shift[1]
        return false if first == mine

        tries -= 1 if tries
        next unless publish(:turn, first)

        check_order(first)
        client_of(first).hurt = true if home(owner(first)).away # this client cannot take its turn
        lock_for(first, true, scenario.baton)
        publish(:look, queue.first[1], scenario.baton) if queue.any? && rules[:stand_by]
        return true
      end
      false
    end

    # No client will pass this lock on when it becomes free. So the script tells the first two
    # waiters that listen to ask again at that moment. It tells two, because one may fail.
    def tell_to_look(delay)
      watchers = rules[:two_watch] ? 2 : 1
      queue.first(scenario.tries ? scenario.tries + 2 : queue.size)
           .each { |_, value| watchers -= 1 if watchers.positive? && publish(:look, value, delay) }
    end

    # The time until the lock becomes free if no client acts.
    def time_left
      return lock.left if lock

      window_open? ? window_rest : 0
    end

    # Publishes a message. Like PUBLISH, it returns whether the process listens, as far as the
    # server knows.
    def publish(kind, value, time = nil)
      node = home(owner(value))
      tell do
        message = kind == :turn ? "your turn" : "look again in #{time}"
        fate = hears?(node) ? (", which is lost" if node.link == :deaf) : ", and no process listens"
        "server publishes to #{name(value)}: #{message}#{fate}"
      end
      node.inbox << [kind, value, time] if hears?(node) && node.link != :deaf
      hears?(node)
    end

    # Does this process listen on this server?
    def hears?(node) = node.heard && node.behind == @on_old

    def enqueue(value, ticket)
      known, = queue.find { |_, other| other == value }
      ticket = known || (ticket.zero? ? next_ticket : ticket)
      queue.push([ticket, value]).sort! unless known
      client = client_of(value)
      take_place(client, ticket) if client.value == value && client.phase != :gone
      ticket
    end

    # A ticket is a time, so it is larger than all earlier tickets.
    def next_ticket
      tickets = queue.map(&:first)
      tickets.concat(@twin.queue.map(&:first)) if @twin
      clients.each do |client|
        tickets.push(client.ticket, client.place || 0, (client.reply && client.reply[2]) || 0)
      end
      requests.each { |request| tickets << request.ticket if request.ticket }
      tickets.max.to_i + 1
    end

    def grant(value)
      check_order(value) unless lock # the order was checked when the baton was passed
      lock_for(value, false, scenario.ttl)
      fence = number_lease
      tell { "server gives the lock to #{name(value)}, fence #{fence}" }
      client = client_of(value)
      client.place = nil if client.value == value
      return [:held] unless scenario.fails_over

      # A process that knows the new primary must not use the old one. If it gets a lease there,
      # the lease counts on both servers, so that no other lease may exist beside it.
      [:held, nil, nil, nil, nil, @late_to_old ? Failover::BOTH : line_here]
    end

    def lock_for(value, baton, left)
      @ghost = 0 unless lock && lock.value == value
      @lock = Lock.new(value, baton, left)
    end

    # The fence is the server's time, or one more than the last fence if that is larger. For each
    # lease, the clock here advances by one, because only the order of fences matters.
    def number_lease
      @clock += 1
      fence = [(@clock if rules[:clock_fence]), @companion + 1].compact.max
      check_fence(fence)
      @companion = fence
    end

    # The request puts a client back in its place. If its process can receive its turn again, the
    # client is no longer cut off.
    def take_place(client, ticket)
      lost = client.hurt && client.place
      client.place ||= ticket
      node = nodes[scenario.homes[client.value % clients.size]]
      node.asked = true if lost
      client.hurt = node.state != :up || !hears?(node) || node.link == :deaf
    end

    def tell_nothing(operation, value)
      tell { "server: nothing to #{operation} for #{name(value)}" }
      nil
    end

    def age_server
      @phase_of_second = (@phase_of_second + 1) % scenario.second if scenario.window
      return unless lock

      lock.left -= 1
      return if lock.left.positive?

      tell { "the lock key of #{name(lock.value)} expires" }
      @lock = nil
    end

    def window_open? =
      rules[:window] && scenario.window ? @phase_of_second < scenario.window : false

    def window_rest = scenario.window - @phase_of_second
  end
end
