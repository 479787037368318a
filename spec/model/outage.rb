# frozen_string_literal: true

module Model
  # Outages. Either some processes cannot reach the server while others can, or the server is down
  # for all of them. If an acquire cannot be sent, its client rests: it keeps its value, its
  # ticket and its place in its process's line. Releases, and the requests of clients that leave,
  # are sent after the outage. During an outage, the time that a process waits does not count as
  # idle.
  module Outage
    # A process cannot reach the server, and its subscription breaks.
    def go_away(n, fault = :away)
      spend(fault)
      tell { "OUTAGE: the process of #{names_in(n)} cannot reach the server" }
      leave_server(n)
    end

    # Like go_away, but only for a process whose clients are all waiting.
    def go_away_in_line(n) = go_away(n, :away_in_line)

    # The server is down for all processes. It may have lost its data when it returns (see evict).
    def go_down(_)
      spend(:down)
      tell { "OUTAGE: the server is down" }
      nodes.each_index { |n| leave_server(n) if nodes[n].state != :dead }
    end

    # A process keeps its subscription, but gets no connection for requests. The reason may be the
    # server's limit of clients, or a name that cannot be resolved.
    def get_no_connection(n)
      spend(:unsent)
      tell { "OUTAGE: the process of #{names_in(n)} hears the server, but can send nothing" }
      lose_server(n)
    end

    def come_back(n)
      tell { "the outage of #{names_in(n)} is over" }
      nodes[n].away = nodes[n].met = false
    end

    # An acquire cannot be sent.
    def fail_to_send(i)
      client = clients[i]
      tell { "#{name(client.value)} cannot send its request" }
      requests.reject! { |request| request.op == :acquire && unsent?(request, client) }
      client.age = nil
      client.early = client.own = false
      return give_up_unsent(i) if client.quits
      return client.phase = :idle if client.phase == :looking

      client.woken ? ask_once_more(i) : rest(i)
    end

    # A process cannot open its subscription.
    def fail_to_subscribe(n)
      tell { "the process of #{names_in(n)} cannot subscribe" }
      pause(n)
      tell_of_outage(scenario.tenants[n])
    end

    # An answer never comes, although the connection still exists. All other clients of the
    # process are told that the server cannot be reached.
    def meet_silence(i)
      spend(:silence)
      tell { "SILENCE: #{name(clients[i].value)} gives up its request" }
      make_late(clients[i].value)
      clients[i].hurt = true
      despair(i)
      tell_of_outage(scenario.tenants[scenario.homes[i]] - [i])
      ask_unplaced(scenario.homes[i])
    end

    private

    def outage_steps(steps)
      return unless scenario.outage

      begins = !scenario.quiet || !under_way?
      steps << [:go_down, nil] if left?(:down) && active? && begins
      nodes.each_with_index do |node, n|
        steps << [:come_back, n] if node.away
        next if node.away || node.state != :up || rests?(n) || !begins

        steps << [:go_away, n] if left?(:away)
        in_line = scenario.tenants[n].all? { |i| clients[i].phase == :waiting }
        steps << [:go_away_in_line, n] if left?(:away_in_line) && in_line
        steps << [:get_no_connection, n] if left?(:unsent)
      end
      return unless left?(:silence)

      clients.each_with_index do |client, i|
        asks = client.age && client.phase != :holding && home(i).state == :up
        steps << [:meet_silence, i] if asks
      end
    end

    # If the server goes down in this scenario, it can lose its data only while it is down.
    def may_lose_data? = !scenario.faults.key?(:down) || nodes.all? { |node| node.away }

    # The steps that fail at once while the server cannot be reached.
    def vain_steps(steps)
      nodes.each_with_index do |node, n|
        next unless node.away && node.state == :up

        tries = node.link == :cut && node.pause.nil? && waiters(n).any?
        steps << [:fail_to_subscribe, n] if tries
        scenario.tenants[n].each do |i|
          next unless requests.any? { |one| one.op == :acquire && unsent?(one, clients[i]) }

          steps << [:fail_to_send, i]
        end
      end
    end

    def unsent?(request, client) = request.value == client.value && !request.late

    # Is the request held up because its process cannot reach the server?
    def held_up?(request) = scenario.outage && home(owner(request.value)).away

    def leave_server(n)
      lose_server(n)
      leave_primary(n)
    end

    def lose_server(n)
      nodes[n].away = true
      nodes[n].met = false
      client_of(lock.value).hurt = true if lock&.baton && scenario.homes[owner(lock.value)] == n
      scenario.tenants[n].each { |i| clients[i].early = !clients[i].age.nil? }
    end

    # Marks a client that has been cut off from its turn. During an outage, the mark is :outage,
    # because the order among the clients of its process must still hold.
    def cut_off(client, n)
      client.hurt = nodes[n].away ? client.hurt || :outage : true
    end

    # Runs when time passes. All urgent steps are done before that.
    def check_outages
      nodes.each_with_index do |node, n|
        next if node.state != :up

        reached = !node.away && node.link == :on && node.heard && node.pause.nil?
        scenario.tenants[n].each do |i|
          next unless clients[i].phase == :waiting

          check_knowledge(clients[i], node, reached)
          clients[i].hurt = false if reached && clients[i].hurt == :outage
        end
      end
      check_orphans unless (scenario.faults.keys & LOSING).any?
    end

    LOSING = %i[lose silence fail_over split evict deaf freeze].freeze
    private_constant :LOSING

    def check_knowledge(client, node, reached)
      who = name(client.value)
      if node.away && node.met && !client.unreached
        violate(:unaware, "#{who} does not know that its process cannot reach the server")
      elsif reached && client.unreached
        violate(:unaware, "#{who} does not know that its process can reach the server again")
      end
    end

    # Normally, a client takes its turn before any time passes. It may be late if its process cannot
    # reach the server. It may also be late during a pause, because a pause is shorter than a
    # baton's second. If the client no longer uses the value, an outage may have lost the message.
    def late_turn?(value, node) = node.away || node.pause || client_of(value).value != value

    # No client that has left is still in the queue, if its process can reach the server.
    def check_orphans
      queue.each do |_, value|
        node = home(owner(value))
        next if node.state == :dead || node.away || !ghost?(Lock.new(value))

        violate(:orphan, "#{name(value)} has left, but is still in the queue")
      end
    end
  end
end
