# frozen_string_literal: true

module Model
  # What clients do when their process cannot reach the server, and how they get their places back,
  # also if only the queue or a subscription was lost.
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

    # Without the rule: each client leaves the queue, and comes back with its ticket by itself.
    def come_again(i)
      client = clients[i]
      post(:leave, client.value)
      client.value += clients.size
      client.known = client.called = client.checks = client.shaken = client.unplaced = false
      client.phase = :idle
      fail_for_all(i)
    end

    # No client of the process tries before the pause is over.
    def pause(n)
      nodes[n].met = true
      nodes[n].pause = nodes[n].look = 1
    end

    # The server is there, as far as the process knows.
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

    # A newcomer does not overtake those of its process that must ask for their places.
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

    # Those of a process that must ask for their places do so one after another.
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

      # this is the look that is due, if one is
      node.look = nil if node.look == 0
      node.told = nil if node.told == 0
      ask(due.min_by { |i| rank_in_line(i) })
    end

    # Some ask for their places, or must do so.
    def places_due?(n) = scenario.tenants[n].any? { |i| clients[i].unplaced }

    def unplaced(n)
      scenario.tenants[n].select { |i| clients[i].phase == :waiting && clients[i].unplaced }
    end

    def rank_in_line(i) = clients[i].ticket.zero? ? Float::INFINITY : clients[i].ticket

    # The queue has lost this client. All others of its process ask for their places, too; their
    # answers tell nothing new.
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

    # Its answer may be older than the loss.
    def shake_later(client)
      client.woken = client.shaken = true
      client.unplaced = true if rules[:doubt_place]
    end
  end
end
