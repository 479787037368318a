# frozen_string_literal: true

require "digest"

module Model
  # A state as a short string, by which the explorer recognizes the state.
  module View
    # The key does not depend on the order of the processes, because they are interchangeable. It
    # consists of one view for each process, sorted, and of the facts that concern no single
    # process. A view has all parts of the state that belong to its process.
    def key
      ranks = ticket_ranks
      views = nodes.each_with_index.map { |node, n| node_view(node, scenario.tenants[n].size) }
      clients.each_with_index { |client, i| client_view(client, ranks, views[scenario.homes[i]]) }
      queue.each_with_index do |(ticket, value), position|
        view_of(value, views).push(200, position, code(value), ranks[ticket])
      end
      sorted_requests.each do |r|
        view_of(r.value, views).push(
          201, OPS[r.op], code(r.value), (r.late ? 1 : 0) + ((r.old || 0) * 2),
          rank(ranks, r.ticket)
        )
      end
      if lock
        view_of(lock.value, views).push(
          202, code(lock.value), lock.baton ? 1 : 0, lock.kept ? 1 : 0, lock.left
        )
      end
      twin_view(ranks, views) if @twin
      sorted_places.each { |place| place_view(place, view_of(place.value, views)) }
      general = [
        203, @idle, @ghost, @expires || 0, @phase_of_second, 99 + @companion - @issued,
        99 + @clock - @issued, *budget.values, *twin_facts
      ]
      views.map! { |view| view.pack("C*") }
      views.sort! << general.pack("C*")
      Digest::MD5.digest(views.join)
    end

    private

    number = ->(*names) { names.each_with_index.to_h }
    STATES = number[:up, :frozen, :dead]
    LINKS = number[:none, :sent, :on, :deaf, :cut]
    PHASES = number[:idle, :looking, :subscribing, :asking, :waiting, :holding, :polling, :gone]
    OPS = number[:acquire, :release, :keep, :leave, :undo, :extend, :downgrade, :subscribe]
    KINDS = number[:patient, :impatient, :older]
    MESSAGES = number[:subscribed, :turn, :look]
    REPLIES = number[nil, :held, :refused, :extended, :downgraded, :lost]
    SHARES = number[nil, "r", "w", "s1", "s2", "s3"]
    private_constant :STATES, :LINKS, :PHASES, :OPS, :KINDS, :MESSAGES, :REPLIES, :SHARES

    def ticket_ranks
      tickets = queue.map(&:first)
      tickets.concat(@twin.queue.map(&:first)) if @twin
      requests.each { |request| tickets << request.ticket if request.ticket }
      clients.each do |client|
        tickets << client.ticket
        tickets << client.place if client.place
        tickets << client.reply[2] if client.reply && client.reply[2]
      end
      tickets << 0
      tickets.uniq!
      tickets.sort!
      tickets.each_with_index.to_h
    end

    def rank(ranks, ticket) = ticket ? ranks[ticket] + 1 : 0

    # The number of a value in the view of its process: the client's number within the process,
    # and how many times the client has changed its value.
    def code(value) = (scenario.seats[owner(value)] * 16) + (value / clients.size)

    def view_of(value, views) = views[scenario.homes[owner(value)]]

    def sorted_requests
      if requests.size < 2
        requests
      else
        requests.sort_by do |request|
          (request.value * 128) + (OPS[request.op] * 8) + (request.late ? 4 : 0) +
            (request.old || 0)
        end
      end
    end

    def sorted_places
      if inside.size < 2
        inside
      else
        inside.sort_by { |place| (place.value * 2) + (place.baton ? 1 : 0) }
      end
    end

    def twin_view(ranks, views)
      @twin.queue.each_with_index do |(ticket, value), position|
        view_of(value, views).push(205, position, code(value), ranks[ticket])
      end
      return unless (there = @twin.lock)

      view_of(there.value, views).push(
        206, code(there.value), there.baton ? 1 : 0, there.kept ? 1 : 0, there.left
      )
    end

    def twin_facts
      return [] unless @twin

      [@twin.serves ? 2 : 1, @twin.age || 0, 99 + @twin.companion - @issued, @twin.ghost || 0]
    end

    def place_view(place, view)
      view.push(
        204, code(place.value), (place.baton ? 1 : 0) + (place.kept ? 2 : 0), place.mode.ord,
        place.left, place.ghost
      )
    end

    def node_view(node, tenants)
      view = [
        tenants, STATES[node.state], node.heard ? 1 : 0, LINKS[node.link],
        (node.again ? 1 : 0) + (node.asked && scenario.faults.key?(:evict) ? 2 : 0) +
          (node.behind ? 4 : 0) + (node.told_of ? 8 : 0),
        node.missed ? code(node.missed) + 1 : 0, node.buffered,
        small(node.look), small(node.told), node.inbox.size,
        (node.away ? 1 : 0) + (node.pause ? 2 : 0) + (node.met ? 4 : 0)
      ]
      node.inbox.each do |kind, value, time|
        view.push(MESSAGES[kind], value ? code(value) : 0, time || 0)
      end
      view
    end

    def client_view(client, ranks, view)
      reply = client.reply
      flags =
        (client.woken ? 1 : 0) + (client.quits ? 2 : 0) + (client.hurt ? 4 : 0) +
        (client.known ? 8 : 0) + (client.called ? 16 : 0) + (client.checks ? 32 : 0) +
        (client.shaken ? 64 : 0) + (client.unplaced ? 128 : 0)
      view.push(
        KINDS[client.kind], SHARES[client.share], PHASES[client.phase], client.value / clients.size,
        ranks[client.ticket], flags, small(client.age), small(client.left), small(client.due),
        rank(ranks, client.place), REPLIES[reply&.first],
        client.line + (client.unreached ? 4 : 0) + (client.hurt == :outage ? 8 : 0) +
          (client.early ? 16 : 0) + (client.own ? 32 : 0)
      )
      if reply
        view.push(
          small(reply[1]), rank(ranks, reply[2]),
          (reply[3] ? 1 : 0) + (reply[4] ? 2 : 0) + ((reply[5] || 0) * 4)
        )
      end
    end

    def small(number) = number ? number + 1 : 0
  end
end
