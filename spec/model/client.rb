# frozen_string_literal: true

module Model
  # The behaviour of a client. The rules are those that the protocol describes or that a
  # counterexample has shown to be necessary. `rules` says which of them are on.
  module Rules
    # A client makes its first request. If its process is subscribed, it queues at once.
    # Otherwise, it first makes a plain attempt.
    def start(i)
      client = clients[i]
      client.value = i if scenario.saturated
      tell { "#{name(i)} begins" }
      return poll(i) if client.kind == :older
      return rest_behind(i) if client.kind == :patient && rests_behind?(i)

      if client.kind != :impatient && (subscribed?(i) || !rules[:subscribe_first])
        subscribe_for(i) if home(i).link == :none
        ask(i, true)
      else
        send_acquire(client, :looking, nil)
      end
    end

    # A client receives the reply to an acquire, an extend or a downgrade.
    def receive(i)
      client = clients[i]
      verdict, left, ticket, ours, lost, line = client.reply
      age = client.age
      client.line = line || Failover::BOTH if %i[held extended].include?(verdict)
      client.reply = client.age = nil
      hear_answer(home(i))
      case verdict
      when :held
        hold(i, scenario.ttl - age, left)
      when :refused
        client.phase == :looking ? refused_at_first(i, left) : refused(i, left, ticket, ours, lost)
      when :extended
        client.left = scenario.ttl - age
        check_exclusion
      when :downgraded
        tell { "#{name(client.value)} has been made a reader" }
      when :lost
        client.left = 0
        tell { "#{name(client.value)} learns that its lease is lost" }
      end
      check_late_lease(i)
      ask_unplaced(scenario.homes[i])
    end

    # A process receives a message on its channel.
    def hear(n)
      node = nodes[n]
      kind, value, time = node.inbox.shift
      # without rule 5 (`drain`), the messages that were read with this one wait until another
      # message arrives
      node.buffered = rules[:drain] ? 0 : node.inbox.size
      case kind
      when :subscribed then subscribed(n)
      when :turn then my_turn(value)
      when :look then stand_by(value, time)
      end
    end

    # The timer of a process fires. The process's first waiter without a request under way asks
    # again.
    def look_again(i)
      tell { "#{name(clients[i].value)} looks again" }
      node = home(i)
      node.look = nil
      node.told = nil if node.told == 0
      ask(i)
    end

    def subscribe_again(n)
      tell { "the process of #{names_in(n)} subscribes again" }
      nodes[n].again = true
      subscribe_for(scenario.homes.index(n))
    end

    # A holder's block ends.
    def finish(i)
      tell { "#{name(clients[i].value)} ends its block and releases" }
      release_lease(i)
    end

    # A block ends before at_least: is over, so the lock must stay taken.
    def finish_early(i)
      spend(:keep)
      tell { "#{name(clients[i].value)} ends its block; the lock shall stay taken" }
      post(:keep, clients[i].value)
      vanish(i)
    end

    # An older client polls with SETNX. Its request and the reply are one step in the model.
    def poll(i)
      client = clients[i]
      if set_if_free(i)
        tell { "#{name(i)} polls and gets the lock" }
        hold(i, scenario.ttl)
      else
        tell { "#{name(i)} polls, and the lock is held" }
        client.phase = :polling
        client.due = scenario.older_interval
      end
    end

    # A client gives up. If its request is under way, it first waits for that request to end (rule
    # 8, `end_claims`).
    def give_up(i)
      client = clients[i]
      spend(:give_up)
      tell { "#{name(client.value)} gives up" }
      under_way = client.phase == :looking || client.phase == :asking
      if under_way && rules[:end_claims]
        client.quits = true
        return ask_unplaced(scenario.homes[i])
      end

      queued = client.phase == :waiting || under_way
      vanish(i)
      post(under_way ? :undo : :leave, client.value) if queued
    end

    # A client stops waiting for the reply to an acquire. The request may still arrive, so the
    # client never uses the same value again (rule 7, `fresh_value`).
    def despair(i)
      client = clients[i]
      doubtful = client.value
      first_look = client.phase == :looking
      client.reply = client.age = nil
      client.value += clients.size if rules[:fresh_value]
      client.known =
        client.called = client.checks = client.shaken = client.unplaced = client.early = false
      client.place = nil if client.ticket.zero?
      client.woken = false
      post(:undo, doubtful)
      return vanish(i) if client.quits || client.kind == :impatient

      return send_acquire(client, :looking, nil) if first_look

      rests_behind?(i) ? rest_behind(i) : ask(i, true)
      ask_unplaced(scenario.homes[i])
    end

    # The waiter that asks again for its process: the one with the lowest ticket.
    def first_in_line(n)
      first = nil
      scenario.tenants[n].each do |i|
        next unless clients[i].phase == :waiting

        first = i if first.nil? || rank_in_line(i) < rank_in_line(first)
      end
      first
    end

    def waiters(n) = scenario.tenants[n].select { |i| LINE.include?(clients[i].phase) }

    private

    LINE = %i[subscribing asking waiting].freeze
    private_constant :LINE

    # Sends an acquire, with the client's ticket if it has one. A client that claims its turn
    # sends the same request. A client that cannot receive its turn does not queue.
    def ask(i, own = false)
      client = clients[i]
      alone = scenario.tenants[scenario.homes[i]].size == 1
      client.own = own && !alone
      # until the answer sets `unplaced` again, only other clients of the process read it, so a
      # client that is alone clears it
      client.unplaced &&= !alone
      ticket = rules[:keep_ticket] ? client.ticket : 0
      send_acquire(client, :asking, subscribed?(i) || !rules[:subscribe_first] ? ticket : nil)
    end

    def send_acquire(client, phase, ticket)
      client.phase = phase
      client.age = 0
      tell do
        place = ", ticket #{ticket.zero? ? "new" : ticket}" if ticket
        "#{name(client.value)} sends acquire#{place}"
      end
      post(:acquire, client.value, ticket)
    end

    def hold(i, left, changes_in = nil)
      client = clients[i]
      served(i, changes_in) if LINE.include?(client.phase)
      client.phase = :holding
      client.left = left
      client.due = nil
      forget_wait(client)
      @idle = 0 if left.positive?
      tell do
        "#{name(client.value)} holds the lock#{", but its time is over" unless left.positive?}"
      end
      check_exclusion
      return unless client.quits || !left.positive?

      tell { "#{name(client.value)} does not want it any more" }
      release_lease(i)
    end

    # The other waiters of the process need not ask again before this lease expires. If the lock
    # has several holders, they need not ask before another holder's lease expires.
    def served(i, changes_in)
      # a message set `told` because of this client's turn or an earlier one, so it is outdated
      home(i).told = nil unless several_hold?
      if rules[:timer_for_next] && rules[:timer]
        look_in(i, [changes_in, scenario.ttl].compact.min, several_hold?)
      end
      # the queue may have been lost with the lock, so leave_line makes the next waiter ask at
      # once
      home(i).look = nil if !clients[i].called && rules[:timer_for_next] && rules[:uncalled]
      clients[i].phase = :holding
      leave_line(scenario.homes[i])
    end

    # Sets when the first waiter of the process asks again. If `keeps` is true, an earlier moment
    # that is already set stays: an answer to another client set it, and may still be right.
    def look_in(i, time, keeps)
      node = home(i)
      time = [time, scenario.baton].min if rules[:look_every]
      node.look = [time, (node.look if keeps)].compact.min
    end

    def several_hold? = scenario.shared && rules[:keep_look]

    # The client that leaves may be the one that had to ask again for the process. So this sets
    # the timer for the next waiter.
    def leave_line(n)
      node = nodes[n]
      if waiters(n).empty? then node.look = node.told = nil
      elsif rules[:timer_for_next] then node.look ||= 0
      end
    end

    def release_lease(i)
      client = clients[i]
      client.kind == :older ? delete_if(client.value) : post(:release, client.value)
      vanish(i)
    end

    def refused_at_first(i, left)
      client = clients[i]
      return vanish(i) if client.quits
      # the script left work unfinished, so this is not yet a refusal
      return send_acquire(client, :looking, nil) if left == 0 && rules[:go_on]
      return vanish(i) if client.kind == :impatient

      return ask(i, true) if subscribed?(i)

      tell { "#{name(client.value)} is refused and subscribes" }
      client.phase = :subscribing
      subscribe_for(i) if home(i).link == :none
    end

    def refused(i, left, ticket, ours, lost)
      client = clients[i]
      client.ticket = ticket if ticket
      shakes = ticket && lost && client.known && !client.checks
      client.known ||= !ticket.nil?
      client.unplaced = ticket.nil? || (client.shaken && rules[:doubt_place])
      client.unreached = false
      client.called = client.woken
      client.checks = client.shaken
      client.shaken = false
      if client.quits
        vanish(i)
        return post(:leave, client.value)
      end
      if client.woken # its turn, or a reason to doubt its place, came during the request
        client.woken = false
        tell { "#{name(client.value)} is refused, but has heard meanwhile" }
        shake(i) if shakes
        return ask(i, client.own)
      end
      client.checks = false
      tell { "#{name(client.value)} is refused and waits" }
      client.phase = :waiting
      client.early = client.own = false
      left = scenario.baton if left == 0 && !rules[:go_on]
      left = [left, scenario.poll].min if !ours && rules[:poll_strangers]
      look_in(i, left, several_hold? || first_in_line(scenario.homes[i]) != i) if rules[:timer]
      home(i).told = nil unless rules[:earliest_timer]
      shake(i) if shakes
    end

    # Is the process subscribed, as far as it knows?
    def subscribed?(i) = %i[on deaf].include?(home(i).link)

    def subscribe_for(i)
      home(i).link = :sent
      post(:subscribe, i)
    end

    # While the process was not subscribed, turns may have been lost. So any waiter may have been
    # passed over, even one with a request under way.
    def subscribed(n)
      node = nodes[n]
      node.link = :on
      tell { "the process of #{names_in(n)} is subscribed" }
      node.pause = nil if rules[:resume]
      scenario.tenants[n].each do |i|
        case clients[i].phase
        when :waiting
          clients[i].checks = clients[i].unplaced = true if node.again && rules[:look_after_cut]
        when :asking
          shake_later(clients[i]) if node.again && rules[:remember_cut]
        end
      end
      scenario.tenants[n].each do |i|
        next if clients[i].phase != :subscribing

        rules[:rest_behind] && places_due?(n) ? rest_behind(i) : ask(i)
      end
      ask_unplaced(n)
    end

    def my_turn(value)
      i = owner(value)
      client = clients[i]
      case known_as(client, value)
      when :waiting
        tell { "#{name(value)} hears that it is its turn" }
        client.called = true
        ask(i)
      when :asking
        tell { "#{name(value)} hears that it is its turn, and remembers it until the answer comes" }
        client.woken = client.called = true
      when :holding
        tell { "#{name(value)} hears that it is its turn, and holds the lock already" }
      else
        stray_turn(value)
      end
    end

    # The state of this value in the process's table of waiters, or nil if the value is not there.
    def known_as(client, value)
      return if client.value != value || client.phase == :gone
      return if client.phase == :asking && client.ticket.zero? && !rules[:table_first]
      return if client.phase == :holding && !rules[:no_doubt]

      client.phase
    end

    def stray_turn(value)
      unless rules[:pass_strays]
        return tell { "a turn comes for #{name(value)}, which no client knows, and is ignored" }
      end

      tell { "a turn comes for #{name(value)}, which no client knows: it is passed on" }
      post(rules[:no_doubt] ? :leave : :undo, value)
    end

    def stand_by(value, time)
      client = client_of(value)
      return if client.value != value || !LINE.include?(client.phase) || !rules[:timer]

      tell { "#{name(value)} hears that it shall look again in #{time}" }
      node = home(owner(value))
      node.told = [node.told, time].compact.min
    end

    def vanish(i)
      client = clients[i]
      waited = LINE.include?(client.phase)
      client.phase = :gone
      leave_line(scenario.homes[i]) if waited
      client.reply = client.age = client.left = client.due = client.place = nil
      client.line = Failover::BOTH
      client.quits = client.hurt = false
      forget_wait(client)
      client.ticket = 0
      ask_unplaced(scenario.homes[i]) if waited
    end

    def forget_wait(client)
      client.woken = client.known = client.called = client.checks = client.shaken = false
      client.unplaced = client.unreached = client.early = client.own = false
    end

    def post(op, value, ticket = nil)
      requests << Request.new(op, value, ticket, false, destination(home(owner(value)))).freeze
    end

    def age_client(client)
      client.age += 1 if client.age && client.age < scenario.ttl
      client.left -= 1 if client.left&.positive?
      client.due -= 1 if client.due&.positive?
    end

    def age_node(node)
      node.look -= 1 if node.look&.positive?
      node.told -= 1 if node.told&.positive?
    end

    def names_in(n) = scenario.tenants[n].map { |i| name(i) }.join(", ")
  end
end
