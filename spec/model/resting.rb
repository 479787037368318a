# frozen_string_literal: true

module Model
  # How clients behave when their process cannot reach the server, and how they regain their places.
  # Clients regain their places in the same way if only the queue or a subscription was lost.
  module Resting
    private

    def give_up_unsent(i)
      value = clients[i].value
      vanish(i)
      post(:leave, value)
    end

    def ask_once_more(i)
      clients[i].woken = false
      fail_for_all(i)
      ask(i)
    end

    def rest(i)
      client = clients[i]
      return come_again(i) unless rules[:rest]

      tell { "#{name(client.value)} rests with its place" }
      client.phase = :waiting
      client.unplaced = rules[:ask_again]
      client.unreached = true
      fail_for_all(i)
    end

    def fail_for_all(i)
      n = scenario.homes[i]
      pause(n)
      tell_of_outage(scenario.tenants[n] - [i]) if rules[:tell_all]
    end

    # Without the rule `rest`, each client leaves the queue, and asks again later with its old
    # ticket.
    def come_again(i)
      client = clients[i]
      post(:leave, client.value)
      client.value += clients.size
      client.known = client.called = client.checks = client.shaken = client.unplaced = false
      client.phase = :idle
      fail_for_all(i)
    end

    # Until the pause is over, no client of the process tries again.
    def pause(n)
      nodes[n].met = true
      nodes[n].pause = nodes[n].look = 1
    end

    # An answer shows the process that it can reach the server.
    def hear_answer(node)
      node.pause = nil
      node.met = false
    end

    def age_pauses
      nodes.each_with_index do |node, n|
        next unless node.pause

        node.pause = nil
        ask_unplaced(n) if rules[:try_again]
        node.look = nil unless rules[:try_again]
      end
    end

    def tell_of_outage(members)
      members.each do |i|
        next unless clients[i].phase == :waiting

        clients[i].unreached = true
        clients[i].unplaced = true if rules[:ask_again]
      end
    end

    # Must this newcomer rest? It must not overtake clients of its process that still have to ask
    # for their places.
    def rests_behind?(i)
      others = waiters(scenario.homes[i]) - [i]
      rules[:rest_behind] && others.any? &&
        (!subscribed?(i) || others.any? { |other| clients[other].unplaced })
    end

    def rest_behind(i)
      tell { "#{name(clients[i].value)} rests behind the others of its process" }
      clients[i].phase = :waiting
      clients[i].unplaced = clients[i].unreached = true
    end

    # If several clients of a process must ask for their places, they ask one after another.
    def ask_unplaced(n)
      node = nodes[n]
      return unless places_due?(n) && node.state == :up && node.pause.nil? &&
                    %i[on deaf].include?(node.link)

      due = unplaced(n)
      return due.each { |i| ask(i) } unless rules[:in_turn]

      asks = scenario.tenants[n].any? do |i|
        clients[i].phase == :asking && !clients[i].own && !clients[i].quits
      end
      return if due.empty? || asks

      # if the process must ask again now, this request is enough
      node.look = nil if node.look == 0
      node.told = nil if node.told == 0
      ask(due.min_by { |i| rank_in_line(i) })
    end

    # Is there a client of this process that asks for its place, or that has yet to ask for it?
    def places_due?(n) = scenario.tenants[n].any? { |i| clients[i].unplaced }

    def unplaced(n)
      scenario.tenants[n].select { |i| clients[i].phase == :waiting && clients[i].unplaced }
    end

    def rank_in_line(i) = clients[i].ticket.zero? ? Float::INFINITY : clients[i].ticket

    # A client finds that the queue has lost it. Then all other clients of its process also ask for
    # their places. If an answer to one of these requests reports another lost place, the clients do
    # not ask once more.
    def shake(i)
      tell do
        "#{name(clients[i].value)} finds its place lost, so all of its process ask for theirs"
      end
      (scenario.tenants[scenario.homes[i]] - [i]).each do |other|
        client = clients[other]
        case client.phase
        when :waiting
          client.checks = client.unplaced = true
        when :asking then shake_later(client)
        end
      end
    end

    # A request of this client is under way. The server may have sent the answer before the queue or
    # the subscription was lost, so the client asks again after the answer.
    def shake_later(client)
      client.woken = client.shaken = true
      client.unplaced = true if rules[:doubt_place]
    end
  end
end
