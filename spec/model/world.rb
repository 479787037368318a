# frozen_string_literal: true

require_relative "server"
require_relative "shared_server"
require_relative "client"
require_relative "faults"
require_relative "checks"
require_relative "view"

module Model
  # What the lock key holds: the value of its holder or, as a baton, of the one whose turn it is;
  # and how long it still lives. kept: the lease is over, but the lock is to stay taken.
  Lock = Struct.new(:value, :baton, :left, :kept)

  # The same of one who is inside a lock with several holders. Where nothing is left it is over, but
  # still noted. ghost: how long its value has been nobody's; the checker's own.
  Place = Struct.new(:value, :baton, :left, :kept, :mode, :ghost)

  # On its way to the server. A late one may arrive at any time, or never.
  Request = Struct.new(:op, :value, :ticket, :late)

  # phase: :idle, :looking, :subscribing, :asking, :waiting, :holding, :polling (older clients),
  # :gone share: of a lock with several holders, as its lease has it; age: since its request left;
  # left: of its lease, as it sees it; due: until an older one polls again. known: an answer has
  # said that it is in the queue; called: its turn has come since it last asked; checks, shaken: it
  # asks, or will, because another one's place was lost. place and hurt are the checker's own: its
  # rightful place, and whether a fault has cut it off from its turn.
  Client =
    Struct.new(
      :kind, :share, :phase, :value, :ticket, :reply, :woken, :quits, :age, :left, :due, :place,
      :hurt, :known, :called, :checks, :shaken
    )

  # state: :up, :frozen, :dead. heard: the server counts it as listening. link: how the process sees
  # its subscription, one of :none, :sent, :on, :deaf (broken, but nobody knows), :cut. again: it
  # had one before. buffered: read, but not handled. look, told: until the first of those who wait
  # there looks again, as the last answer had it, and as a message has. asked is the checker's own:
  # one of them has asked since the queue was lost.
  Node = Struct.new(:state, :heard, :link, :again, :inbox, :buffered, :look, :told, :asked)

  # One state of everything: the server, the clients, the messages under way. `steps` names what can
  # happen next; a step is made on a copy.
  class World
    include Server
    include SharedServer
    include Rules
    include Faults
    include Checks
    include View

    attr_reader :scenario,
                :rules,
                :lock,
                :inside,
                :queue,
                :clients,
                :nodes,
                :requests,
                :budget,
                :idle,
                :violation
    attr_accessor :story

    def initialize(scenario, rules)
      @scenario = scenario
      @rules = rules
      @lock = nil
      @inside = [] # a lock with several holders: of Place, and
      @expires = nil # when its key does
      @queue = [] # of [ticket, value], in order
      @companion = @issued = @clock = 0
      @clients = scenario.kinds.zip(scenario.shares).map do |kind, share|
        Client.new(
          kind, share, :idle, nil, 0, nil, false, false, nil, nil, nil, nil, false, false, false,
          false, false
        )
      end
      @clients.each_with_index { |client, i| client.value = i }
      @nodes =
        scenario.homes.uniq.map { Node.new(:up, false, :none, false, [], 0, nil, nil, false) }
      @requests = []
      @budget = scenario.faults.dup
      @idle = @ghost = @phase_of_second = 0
      @violation = @story = nil
    end

    def initialize_copy(_)
      @lock = @lock.dup
      @inside = @inside.dup
      @queue = @queue.dup
      @clients = @clients.map(&:dup)
      @nodes = @nodes.map { |node| node.dup.tap { |copy| copy.inbox = node.inbox.dup } }
      @requests = @requests.dup
      @budget = @budget.dup
    end

    # Everything that can happen now, as [name, which]. What is urgent takes no time: the clock
    # stands still until all of it is done, unless the scenario lets everything take as long as it
    # likes.
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
      see_who_asked
      measure_time unless scenario.delays
      scenario.shared ? age_shares : age_server
      clients.each { |client| age_client(client) }
      nodes.each { |node| age_node(node) }
    end

    def holds?(client) = client.phase == :holding && client.left.positive?

    def over? = !scenario.saturated && clients.all? { |client| client.phase == :gone }

    # Values are numbers: a client's first is its own number, each fresh one is larger by the number
    # of clients.
    def owner(value) = value % clients.size

    def client_of(value) = clients[owner(value)]

    def home(i) = nodes[scenario.homes[i]]

    def name(value) = "#{("A".ord + owner(value)).chr}#{"'" * (value / clients.size)}"

    def tell = (@story << yield if @story)

    def violate(property, text)
      tell { "VIOLATED (#{property}): #{text}" }
      @violation ||= [property, text]
    end

    private

    def urgent_steps
      steps = []
      requests.each_with_index { |request, i| steps << [:execute, i] unless request.late }
      nodes.each_with_index do |node, n|
        next unless node.state == :up

        steps << [:hear, n] if node.inbox.size > node.buffered
        steps << [:subscribe_again, n] if node.link == :cut && waiters(n).any?
        first = first_in_line(n)
        steps << [:look_again, first] if first && (node.look == 0 || node.told == 0)
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

    # Contention without end: who is done begins again, and who holds goes on until another one
    # queues, but within its time.
    def may_finish?(client)
      !scenario.saturated || client.kind == :older || queue.any? ||
        clients.one? { |other| other.kind == :patient }
    end

    def begins_again?(client)
      scenario.saturated &&
        (client.phase == :idle || (client.phase == :gone && forgotten?(client.value)))
    end

    def last_moment? =
      scenario.saturated && clients.any? { |client| client.phase == :holding && client.left == 1 }

    def forgotten?(value)
      lock&.value != value && queue.none? { |_, other| other == value } &&
        requests.none? { |request| request.value == value } &&
        nodes.none? { |node| node.inbox.any? { |message| message[1] == value } }
    end
  end
end
