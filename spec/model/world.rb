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
  # The content of the lock key. value belongs to the holder or, if the key is a baton, to the
  # next holder. left: the time until it expires. kept: the lease is over, but the lock stays
  # taken.
  Lock = Struct.new(:value, :baton, :left, :kept)

  # A place of a lock with several holders. It has the fields of Lock. If no time is left, the lease
  # is over, but the server still has the place. mode: the first letter of the holder's share: r, w
  # or s. ghost: for how long no client has used the value; only the checker uses it.
  Place = Struct.new(:value, :baton, :left, :kept, :mode, :ghost)

  # A request on its way to the server. If late, it may arrive at any time, or never. old: the
  # request is on its way to an old primary (see Failover).
  Request = Struct.new(:op, :value, :ticket, :late, :old)

  # A second server: a replica that lags, or an old primary (see Failover). age: for how long there
  # have been two primaries.
  Twin = Struct.new(:lock, :queue, :companion, :serves, :age, :ghost)

  # A client. The checker alone uses the last three fields of this list.
  #   phase      :idle, :looking, :subscribing, :asking, :waiting, :holding, :gone, or, for older
  #              clients, :polling
  #   share      its share of a lock with several holders
  #   age        the time since its request left
  #   left       the rest of its lease, by its own clock
  #   due        the time until an older client polls again
  #   known      an answer has said that it is in the queue.
  #   called     its turn has come since it last asked.
  #   checks     it asks because its place, or a message about its turn, may be lost.
  #   shaken     it will ask again after the answer, for the same reason.
  #   line       the servers that know its lease (see Failover)
  #   unplaced   it must ask for its place (see Resting).
  #   unreached  it knows that its process cannot reach the server.
  #   own        its own thread asks, and not the thread that asks for all waiters.
  #   place      the ticket of its rightful place
  #   hurt       a fault has cut it off from its turn.
  #   early      its request left before an outage.
  Client =
    Struct.new(
      :kind, :share, :phase, :value, :ticket, :reply, :woken, :quits, :age, :left, :due, :place,
      :hurt, :known, :called, :checks, :shaken, :line, :unplaced, :unreached, :early,
      :own
    )

  # A process. The checker alone uses the last two fields of this list.
  #   state     :up, :frozen or :dead
  #   heard     the server counts it as listening.
  #   link      the subscription as the process sees it: :none, :sent, :on, :cut, or :deaf (broken,
  #             but neither side knows)
  #   again     it had a subscription before.
  #   buffered  how many messages are read, but not handled
  #   look      the time until its first waiter asks again, according to the last answer
  #   told      the time until its first waiter asks again, according to a message
  #   behind    it uses an old primary.
  #   told_of   it has been told of the new primary.
  #   away      it cannot reach the server (see Outage).
  #   pause     until this is over, none of its clients tries again.
  #   met       an attempt has failed since the outage began.
  #   asked     one of its clients has asked since the queue was lost.
  #   missed    the value whose turn was lost
  Node = Struct.new(
    :state, :heard, :link, :again, :inbox, :buffered, :look, :told, :asked, :behind, :told_of,
    :missed, :away, :pause, :met
  )

  # One state of the whole system: the server, the clients, and the messages under way. `steps`
  # names the possible next steps. Each step is made on a copy of the state.
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
      @inside = [] # for a lock with several holders: a list of Place
      @expires = nil # the time until that lock's key expires; nil: no key
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

    # The possible steps, as [name, index]. No time passes while any step is urgent, unless the
    # scenario allows each step to take any time.
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

    # Values are numbers. A client's first value is its own number. Each further value is larger
    # by the number of clients.
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

    # During an outage, a client may start only if its process is subscribed, or if it can join
    # waiters of its process.
    def may_start?(i)
      !scenario.saturated && (!home(i).away || (subscribed?(i) || waiters(scenario.homes[i]).any?))
    end

    # In a saturated scenario, a client that has finished begins again. A holder keeps the lock
    # until another client queues, but not beyond its lease (see last_moment?).
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
