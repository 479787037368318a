# frozen_string_literal: true

require_relative "server"
require_relative "shared_server"
require_relative "client"
require_relative "faults"
require_relative "failover"
require_relative "outage"
require_relative "resting"
require_relative "checks"
require_relative "view"

module Model
  # The content of the lock key: the value of its holder or, as a baton, of the next holder; and its
  # remaining life. kept: the lease is over, but the lock stays taken.
  Lock = Struct.new(:value, :baton, :left, :kept)

  # The same for a holder of a lock with several holders. With nothing left it is over, but still
  # noted. ghost: for how long no client has used its value; only the checker uses that.
  Place = Struct.new(:value, :baton, :left, :kept, :mode, :ghost)

  # A request on its way to the server. A late one may arrive at any time, or never. old: it goes to
  # an old primary; see Failover.
  Request = Struct.new(:op, :value, :ticket, :late, :old)

  # Another server; see Failover. age: since when there are two primaries.
  Twin = Struct.new(:lock, :queue, :companion, :serves, :age, :ghost)

  # phase: :idle, :looking, :subscribing, :asking, :waiting, :holding, :polling (older clients),
  # :gone. share: its share of a lock with several holders. age: time since its request left. left:
  # the rest of its lease, as it sees it. due: time until an older client polls again. known: an
  # answer has said that it is in the queue. called: its turn has come since it last asked. checks,
  # shaken: it asks, or will, because another one's place was lost. place and hurt belong to the
  # checker: its rightful place, and whether a fault has cut it off from its turn. line: the servers
  # that know its lease; see Failover. unplaced: it must ask for its place; unreached: it knows that
  # its server cannot be reached; own: its own thread asks, not the one of all; see Resting. early
  # belongs to the checker: its request left before an outage.
  Client =
    Struct.new(
      :kind, :share, :phase, :value, :ticket, :reply, :woken, :quits, :age, :left, :due, :place,
      :hurt, :known, :called, :checks, :shaken, :line, :unplaced, :unreached, :early,
      :own
    )

  # state: :up, :frozen, :dead. heard: the server counts it as listening. link: the subscription as
  # the process sees it, one of :none, :sent, :on, :deaf (broken, but neither side knows), :cut.
  # again: it had a subscription before. buffered: read, but not handled. look, told: the time until
  # its first waiter looks again, by the last answer and by a message. asked belongs to the checker:
  # one of its clients has asked since the queue was lost. behind: it uses an old primary; told_of:
  # it has been told of the new one. missed belongs to the checker: the turn of this value was lost.
  # away: it cannot reach the server; pause: none of its clients tries before that is over; met: an
  # attempt has failed since then; see Outage.
  Node = Struct.new(
    :state, :heard, :link, :again, :inbox, :buffered, :look, :told, :asked, :behind, :told_of,
    :missed, :away, :pause, :met
  )

  # One state of the whole system: the server, the clients, the messages under way. `steps` names
  # the possible next steps; a step is made on a copy.
  class World
    include Server
    include SharedServer
    include Rules
    include Faults
    include Failover
    include Outage
    include Resting
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
      @inside = [] # a lock with several holders: a list of Place, and
      @expires = nil # the expiry of its key
      @queue = [] # a list of [ticket, value], in order
      @companion = @issued = @clock = 0
      @clients = scenario.kinds.zip(scenario.shares).map do |kind, share|
        Client.new(
          kind, share, :idle, nil, 0, nil, false, false, nil, nil, nil, nil, false, false, false,
          false, false, Failover::BOTH, false, false, false, false
        )
      end
      @clients.each_with_index { |client, i| client.value = i }
      @nodes =
        scenario.homes.uniq.map do
          Node.new(:up, false, :none, false, [], 0, nil, nil, false, false)
        end
      @requests = []
      @budget = scenario.faults.dup
      @idle = @ghost = @phase_of_second = 0
      @violation = @story = @twin = nil
      @on_old = false
    end

    def initialize_copy(_)
      @lock = @lock.dup
      @inside = @inside.dup
      @queue = @queue.dup
      @clients = @clients.map(&:dup)
      @nodes = @nodes.map { |node| node.dup.tap { |copy| copy.inbox = node.inbox.dup } }
      @requests = @requests.dup
      @budget = @budget.dup
      @twin = @twin&.dup
      return unless @twin

      @twin.lock = @twin.lock.dup
      @twin.queue = @twin.queue.dup
    end

    # The possible steps, as [name, index]. Urgent steps take no time: the clock stands still until
    # all of them are done, unless the scenario lets each step take any time.
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
      age_twin
      clients.each { |client| age_client(client) }
      nodes.each { |node| age_node(node) }
      age_pauses if scenario.outage
    end

    def holds?(client) = client.phase == :holding && client.left.positive?

    def over?
      !scenario.saturated && clients.all? { |client| client.phase == :gone } &&
        !(scenario.outage && (queue.any? || requests.any? { |request| !request.late }))
    end

    # Values are numbers: a client's first value is its own number, and each fresh one is larger by
    # the number of clients.
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
      steps = serving_twin? && overdue? ? moves : []
      requests.each_with_index do |request, i|
        steps << [:execute, i] unless request.late || held_up?(request)
      end
      vain_steps(steps) if scenario.outage
      nodes.each_with_index do |node, n|
        next unless node.state == :up

        steps << [:hear, n] if node.inbox.size > node.buffered
        steps << [:subscribe_again, n] if node.link == :cut && !node.away && waiters(n).any?
        next if node.pause || !(node.look == 0 || node.told == 0)

        first = first_in_line(n)
        steps << [:look_again, first] if first
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
        when :idle then steps << [:start, i] if may_start?(i)
        when :holding then steps << [:finish, i] if may_finish?(client)
        end
      end
      steps
    end

    # In an outage it may join those of its process that rest.
    def may_start?(i)
      !scenario.saturated && (!home(i).away || (subscribed?(i) || waiters(scenario.homes[i]).any?))
    end

    # Endless contention: a finished client begins again, and a holder stays until another one
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
