# frozen_string_literal: true

require "digest"
require_relative "server"
require_relative "client"
require_relative "faults"

module Model
  # What the lock key holds: the value of its holder or, as a baton, of the one whose turn it is; and how long it still lives.
  # kept: the lease is over, but the lock is to stay taken.
  Lock = Struct.new(:value, :baton, :left, :kept)

  # On its way to the server. A late one may arrive at any time, or never.
  Request = Struct.new(:op, :value, :ticket, :late)

  # phase: :idle, :looking, :subscribing, :asking, :waiting, :holding, :polling (older clients), :gone
  # age: since its request left; left: of its lease, as it sees it; due: until it looks again by itself.
  # place and hurt are the checker's own: its rightful place, and whether a fault has cut it off from its turn.
  Client = Struct.new(:kind, :phase, :value, :ticket, :reply, :woken, :quits, :age, :left, :due, :place, :hurt)

  # state: :up, :frozen, :dead. heard: the server counts it as listening. link: how the process sees its subscription, one of
  # :none, :sent, :on, :deaf (broken, but nobody knows), :cut. again: it had one before. buffered: read, but not handled.
  Node = Struct.new(:state, :heard, :link, :again, :inbox, :buffered)

  # One state of everything: the server, the clients, the messages under way. `steps` names what can happen next; a step
  # is made on a copy.
  class World
    include Server
    include Rules
    include Faults

    attr_reader :scenario, :rules, :lock, :queue, :clients, :nodes, :requests, :budget, :idle, :violation
    attr_accessor :story

    def initialize(scenario, rules)
      @scenario = scenario
      @rules = rules
      @lock = nil
      @queue = [] # of [ticket, value], in order
      @companion = @issued = @clock = 0
      @clients = scenario.kinds.map { |kind| Client.new(kind, :idle, nil, 0, nil, false, false, nil, nil, nil, nil, false) }
      @clients.each_with_index { |client, i| client.value = i }
      @nodes = scenario.homes.uniq.map { Node.new(:up, false, :none, false, [], 0) }
      @requests = []
      @budget = scenario.faults.dup
      @idle = @ghost = @phase_of_second = 0
      @violation = @story = nil
    end

    def initialize_copy(_)
      @lock = @lock.dup
      @queue = @queue.dup
      @clients = @clients.map(&:dup)
      @nodes = @nodes.map { |node| node.dup.tap { |copy| copy.inbox = node.inbox.dup } }
      @requests = @requests.dup
      @budget = @budget.dup
    end

    # Everything that can happen now, as [name, which]. What is urgent takes no time: the clock stands still until all of it
    # is done, unless the scenario lets everything take as long as it likes.
    def steps
      urgent = urgent_steps
      steps = urgent + leisurely_steps
      steps << TICK if scenario.delays || (urgent.empty? && !last_moment?)
      steps
    end

    def step(step)
      copy = dup
      copy.public_send(*step)
      copy
    end

    TICK = [:tick, nil].freeze

    # One unit of time passes.
    def tick(_)
      tell { "--- one unit of time passes" }
      measure_time unless scenario.delays
      age_server
      clients.each { |client| age_client(client) }
    end

    def somebody_waits?
      clients.each_with_index.any? { |client, i| WAITS.include?(client.phase) && !client.quits && home(i).state == :up }
    end

    def somebody_holds? = lock&.kept || clients.any? { |client| holds?(client) }

    def holds?(client) = client.phase == :holding && client.left.positive?

    def over? = !scenario.saturated && clients.all? { |client| client.phase == :gone }

    # Values are numbers: a client's first is its own number, each fresh one is larger by the number of clients.
    def owner(value) = value % clients.size

    def client_of(value) = clients[owner(value)]

    def home(i) = nodes[scenario.homes[i]]

    def name(value) = "#{("A".ord + owner(value)).chr}#{"'" * (value / clients.size)}"

    def tell = (@story << yield if @story)

    def violate(property, text)
      tell { "VIOLATED (#{property}): #{text}" }
      @violation ||= [property, text]
    end

    # The state as a short string, the same for states that differ only in who is who: the view that each process has of
    # everything, sorted, for processes are interchangeable. Whatever there is belongs to one process, so nothing is left out.
    def key
      ranks = ticket_ranks
      views = nodes.each_with_index.map { |node, n| node_view(node, scenario.tenants[n].size) }
      clients.each_with_index { |client, i| client_view(client, ranks, views[scenario.homes[i]]) }
      queue.each_with_index { |(ticket, value), position| view_of(value, views).push(200, position, code(value), ranks[ticket]) }
      sorted_requests.each { |r| view_of(r.value, views).push(201, OPS[r.op], code(r.value), r.late ? 1 : 0, rank(ranks, r.ticket)) }
      view_of(lock.value, views).push(202, code(lock.value), lock.baton ? 1 : 0, lock.kept ? 1 : 0, lock.left) if lock
      general = [203, @idle, @ghost, @phase_of_second, 99 + @companion - @issued, 99 + @clock - @issued, *budget.values]
      views.map! { |view| view.pack("C*") }
      views.sort! << general.pack("C*")
      Digest::MD5.digest(views.join)
    end

    private

    WAITS = %i[looking subscribing asking waiting].freeze
    number = ->(*names) { names.each_with_index.to_h }
    STATES = number[:up, :frozen, :dead]
    LINKS = number[:none, :sent, :on, :deaf, :cut]
    PHASES = number[:idle, :looking, :subscribing, :asking, :waiting, :holding, :polling, :gone]
    OPS = number[:acquire, :release, :keep, :leave, :undo, :extend, :subscribe]
    KINDS = number[:patient, :impatient, :older]
    MESSAGES = number[:subscribed, :turn, :look]
    REPLIES = number[nil, :held, :refused, :extended, :lost]
    private_constant :WAITS, :STATES, :LINKS, :PHASES, :OPS, :KINDS, :MESSAGES, :REPLIES

    def urgent_steps
      steps = []
      requests.each_with_index { |request, i| steps << [:execute, i] unless request.late }
      nodes.each_with_index do |node, n|
        next unless node.state == :up

        steps << [:hear, n] if node.inbox.size > node.buffered
        steps << [:subscribe_again, n] if node.link == :cut && waiters(n).any?
        first = first_in_line(n)
        steps << [:look_again, first] if first && clients[first].due == 0
      end
      clients.each_with_index do |client, i|
        steps << [:receive, i] if client.reply && home(i).state == :up
        steps << [:start, i] if begins_again?(client)
        steps << [:poll, i] if client.phase == :polling && client.due.zero? && home(i).state == :up
      end
      steps
    end

    def leisurely_steps
      steps = fault_steps
      requests.each_with_index { |request, i| steps << [:execute, i] if request.late }
      clients.each_with_index do |client, i|
        next unless home(i).state == :up

        case client.phase
        when :idle then steps << [:start, i] unless scenario.saturated
        when :holding then steps << [:finish, i] if may_finish?(client)
        end
      end
      steps
    end

    # Contention without end: who is done begins again, and who holds goes on until another one queues, but within its time.
    def may_finish?(client)
      !scenario.saturated || client.kind == :older || queue.any? || clients.one? { |other| other.kind == :patient }
    end

    def begins_again?(client)
      scenario.saturated && (client.phase == :idle || (client.phase == :gone && forgotten?(client.value)))
    end

    def last_moment? = scenario.saturated && clients.any? { |client| client.phase == :holding && client.left == 1 }

    def forgotten?(value)
      lock&.value != value && queue.none? { |_, other| other == value } && requests.none? { |request| request.value == value } &&
        nodes.none? { |node| node.inbox.any? { |message| message[1] == value } }
    end

    def measure_time
      check_baton
      @idle = somebody_waits? && !somebody_holds? ? @idle + 1 : 0
      violate(:idle, "nobody has held the lock for #{@idle} units, though somebody waits") if @idle > scenario.idle
      @ghost = ghost? ? @ghost + 1 : 0
      limit = scenario.ttl + (scenario.faults[:renew] ? scenario.ttl : 0)
      violate(:ghost, "the lock has been with one who is gone for #{@ghost} units") if @ghost > limit
    end

    # No turn is swallowed: a baton does not lie, even for a moment, with a process that runs and hears, and whose answer to
    # it has not been lost.
    def check_baton
      return unless lock&.baton
      return if requests.any? { |request| request.late && request.op != :acquire && request.value == lock.value }

      node = home(owner(lock.value))
      return unless node.state == :up && node.link == :on

      violate(:swallowed, "it is the turn of #{name(lock.value)}, whose process runs and listens, and nothing happens")
    end

    # The value in the lock is one that nobody uses any more.
    def ghost?
      return false if lock.nil? || lock.kept

      client = client_of(lock.value)
      client.value != lock.value || client.phase == :gone
    end

    def ticket_ranks
      tickets = queue.map(&:first)
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

    # A value within its process: the client's number there, and how often it had to take a fresh one.
    def code(value) = (scenario.seats[owner(value)] * 16) + (value / clients.size)

    def view_of(value, views) = views[scenario.homes[owner(value)]]

    def sorted_requests
      requests.size < 2 ? requests : requests.sort_by { |request| [request.value, OPS[request.op], request.late ? 1 : 0] }
    end

    def node_view(node, tenants)
      view = [tenants, STATES[node.state], node.heard ? 1 : 0, LINKS[node.link], node.again ? 1 : 0, node.buffered,
              node.inbox.size]
      node.inbox.each { |kind, value, time| view.push(MESSAGES[kind], value ? code(value) : 0, time || 0) }
      view
    end

    def client_view(client, ranks, view)
      reply = client.reply
      flags = (client.woken ? 1 : 0) + (client.quits ? 2 : 0) + (client.hurt ? 4 : 0)
      view.push(KINDS[client.kind], PHASES[client.phase], client.value / clients.size, ranks[client.ticket], flags,
                small(client.age), small(client.left), small(client.due), rank(ranks, client.place), REPLIES[reply&.first])
      view.push(small(reply[1]), rank(ranks, reply[2]), reply[3] ? 1 : 0) if reply
    end

    def small(number) = number ? number + 1 : 0
  end
end
