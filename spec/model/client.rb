# frozen_string_literal: true

module Model
  # What a client does: the rules that protocol and counterexamples ask of it. `rules` says which of them are kept.
  module Rules
    # From nothing to a first request. Who is subscribed already queues at once; who is not looks first.
    def start(i)
      client = clients[i]
      client.value = i
      client.ticket = 0
      client.left = client.place = nil
      tell { "#{name(i)} begins" }
      return poll(i) if client.kind == :older

      if client.kind != :impatient && (subscribed?(i) || !rules[:subscribe_first])
        subscribe_for(i) if home(i).link == :none
        ask(i)
      else
        send_acquire(client, :looking, nil)
      end
    end

    # A reply to an acquire or an extend.
    def receive(i)
      client = clients[i]
      verdict, left, ticket, ours = client.reply
      age = client.age
      client.reply = client.age = nil
      case verdict
      when :held then hold(i, scenario.ttl - age)
      when :refused then client.phase == :looking ? refused_at_first(i) : refused(i, left, ticket, ours)
      when :extended
        client.left = scenario.ttl - age
        check_exclusion
      when :lost then client.left = 0
      end
    end

    # A message on the process's channel.
    def hear(n)
      node = nodes[n]
      kind, value, time = node.inbox.shift
      node.buffered = rules[:drain] ? 0 : node.inbox.size # without rule 5 what one read brought waits for the next one
      case kind
      when :subscribed then subscribed(n)
      when :turn then my_turn(value)
      when :look then stand_by(value, time)
      end
    end

    # The timer of a process: its first in line asks again. One whose answer is under way is in line, too.
    def look_again(i)
      tell { "#{name(clients[i].value)} looks again" }
      scenario.tenants[scenario.homes[i]].each { |other| clients[other].due = nil } unless rules[:timer_for_next]
      ask(i)
    end

    def subscribe_again(n)
      tell { "the process of #{names_in(n)} subscribes again" }
      nodes[n].again = true
      subscribe_for(scenario.homes.index(n))
    end

    # The block ends.
    def finish(i)
      tell { "#{name(clients[i].value)} ends its block and releases" }
      release_lease(i)
    end

    # The block ends, but at_least is not over.
    def finish_early(i)
      spend(:keep)
      tell { "#{name(clients[i].value)} ends its block; the lock shall stay taken" }
      post(:keep, clients[i].value)
      vanish(i)
    end

    # An older client polls, by SETNX; request and reply are one here.
    def poll(i)
      client = clients[i]
      if set_if_free(i)
        tell { "#{name(i)} polls and gets the lock" }
        hold(i, scenario.ttl)
      else
        tell { "#{name(i)} polls in vain" }
        client.phase = :polling
        client.due = scenario.older_interval
      end
    end

    # Patience is over. A request that is under way comes to its end first (rule 8).
    def give_up(i)
      client = clients[i]
      spend(:give_up)
      tell { "#{name(client.value)} gives up" }
      under_way = client.phase == :looking || client.phase == :asking
      return client.quits = true if under_way && rules[:end_claims]

      queued = client.phase == :waiting || under_way
      vanish(i)
      post(under_way ? :undo : :leave, client.value) if queued
    end

    # The reply to an acquire will never come; the request may yet arrive. The value is not used again (rule 7).
    def despair(i)
      client = clients[i]
      doubtful = client.value
      first_look = client.phase == :looking
      client.reply = client.age = nil
      client.value += clients.size if rules[:fresh_value]
      client.place = nil if client.ticket.zero?
      client.woken = false
      post(:undo, doubtful)
      return vanish(i) if client.quits || client.kind == :impatient

      first_look ? send_acquire(client, :looking, nil) : ask(i)
    end

    # Who looks again for a process: the first of its waiters, by ticket.
    def first_in_line(n)
      first = nil
      scenario.tenants[n].each do |i|
        next unless QUEUES.include?(clients[i].phase) && clients[i].ticket.positive?

        first = i if first.nil? || clients[i].ticket < clients[first].ticket
      end
      first if first && clients[first].phase == :waiting
    end

    def waiters(n) = scenario.tenants[n].select { |i| clients[i].phase == :subscribing || QUEUES.include?(clients[i].phase) }

    private

    QUEUES = %i[asking waiting].freeze
    private_constant :QUEUES

    # With its ticket, if it has one. A claim is nothing else.
    def ask(i)
      client = clients[i]
      client.due = nil
      send_acquire(client, :asking, rules[:keep_ticket] ? client.ticket : 0)
    end

    def send_acquire(client, phase, ticket)
      client.phase = phase
      client.age = 0
      tell { "#{name(client.value)} sends acquire#{", ticket #{ticket.zero? ? "new" : ticket}" if ticket}" }
      post(:acquire, client.value, ticket)
    end

    def hold(i, left)
      client = clients[i]
      client.phase = :holding
      client.left = left
      client.due = nil
      client.woken = false
      @idle = 0 if left.positive?
      tell { "#{name(client.value)} holds the lock#{", but its time is over" unless left.positive?}" }
      check_exclusion
      return unless client.quits || !left.positive?

      tell { "#{name(client.value)} does not want it any more" }
      release_lease(i)
    end

    def release_lease(i)
      client = clients[i]
      client.kind == :older ? delete_if(client.value) : post(:release, client.value)
      vanish(i)
    end

    def refused_at_first(i)
      client = clients[i]
      return vanish(i) if client.quits || client.kind == :impatient

      return ask(i) if subscribed?(i)

      tell { "#{name(client.value)} is refused and subscribes" }
      client.phase = :subscribing
      subscribe_for(i) if home(i).link == :none
    end

    def refused(i, left, ticket, ours)
      client = clients[i]
      client.ticket = ticket
      if client.quits
        vanish(i)
        return post(:leave, client.value)
      end
      if client.woken # its turn came while it asked
        client.woken = false
        tell { "#{name(client.value)} is refused, but has heard meanwhile" }
        return ask(i)
      end
      tell { "#{name(client.value)} is refused and waits" }
      client.phase = :waiting
      client.due = rules[:earliest_timer] ? [client.due, left].compact.min : left
      client.due = nil unless rules[:timer]
      client.due = [left, scenario.poll].min if !ours && rules[:poll_strangers]
    end

    # As far as the process knows.
    def subscribed?(i) = %i[on deaf].include?(home(i).link)

    def subscribe_for(i)
      home(i).link = :sent
      post(:subscribe, i)
    end

    # Whoever is in line may have been passed over meanwhile, also one whose request is under way.
    def subscribed(n)
      node = nodes[n]
      node.link = :on
      tell { "the process of #{names_in(n)} is subscribed" }
      scenario.tenants[n].each do |i|
        case clients[i].phase
        when :subscribing then ask(i)
        when :waiting then ask(i) if node.again && rules[:look_after_cut]
        when :asking then clients[i].woken = true if node.again && rules[:remember_cut]
        end
      end
    end

    def my_turn(value)
      i = owner(value)
      client = clients[i]
      case known_as(client, value)
      when :waiting
        tell { "#{name(value)} hears that it is its turn" }
        ask(i)
      when :asking
        tell { "#{name(value)} hears that it is its turn, and remembers it until the answer comes" }
        client.woken = true
      when :holding then tell { "#{name(value)} hears that it is its turn, and holds the lock already" }
      else stray_turn(value)
      end
    end

    # What the table of waiters says about a value.
    def known_as(client, value)
      return if client.value != value || client.phase == :gone
      return if client.phase == :asking && client.ticket.zero? && !rules[:table_first]
      return if client.phase == :holding && !rules[:no_doubt]

      client.phase
    end

    def stray_turn(value)
      return tell { "a turn comes for #{name(value)}, which nobody knows, and is ignored" } unless rules[:pass_strays]

      tell { "a turn comes for #{name(value)}, which nobody knows: it is passed on" }
      post(rules[:no_doubt] ? :leave : :undo, value)
    end

    def stand_by(value, time)
      client = client_of(value)
      return if client.value != value || !QUEUES.include?(client.phase) || !rules[:timer]

      tell { "#{name(value)} hears that it shall look again in #{time}" }
      client.due = [client.due, time].compact.min
    end

    def vanish(i)
      client = clients[i]
      client.phase = :gone
      client.reply = client.age = client.left = client.due = client.place = nil
      client.woken = client.quits = client.hurt = false
      client.ticket = 0
    end

    def post(op, value, ticket = nil)
      requests << Request.new(op, value, ticket, false).freeze
    end

    def check_exclusion
      holders = clients.select { |client| holds?(client) }
      return if holders.size < 2

      violate(:exclusion, "#{holders.map { |client| name(client.value) }.join(" and ")} both hold the lock")
    end

    def age_client(client)
      client.age += 1 if client.age && client.age < scenario.ttl
      client.left -= 1 if client.left&.positive?
      client.due -= 1 if client.due&.positive?
    end

    def names_in(n) = scenario.tenants[n].map { |i| name(i) }.join(", ")
  end
end
