# frozen_string_literal: true

module Model
  # Failovers. The main state is that of the server that clients should use. @twin is a second
  # server, or nil if there is none. It is a replica that has received nothing since it began to
  # lag, or an old primary that still serves.
  #
  # Each lease has a line, which says which servers know the lease: BOTH, the OLD primary or the
  # NEW one. After a failover, an OLD lease and a NEW lease do not exclude each other. Leases
  # on the same server still do.
  module Failover
    BOTH, OLD, NEW = 0, 1, 2

    # From now on, the replica receives nothing.
    def lag(_)
      spend(:lag)
      tell { "from now on the replica receives NOTHING" }
      @twin = copy_of_primary
    end

    # The primary dies, and its replica becomes the primary. All connections are closed, so each
    # process finds the new primary at once.
    def fail_over(_)
      spend(:fail_over)
      tell { "FAILOVER: the primary dies, and its replica takes its place" }
      put_in_charge(@twin || copy_of_primary)
      @twin = nil
      requests.reject!(&:late)
      scenario.homes.uniq.each { |n| leave_primary(n) }
      clients.each_index { |i| lose_what_was_under_way(i) }
      repeat_releases
      clients.each_index { |i| check_lease(i) }
    end

    # A replica becomes the primary, but the old primary still serves all processes that do not know
    # of the new one yet.
    def split(_)
      spend(:split)
      tell { "FAILOVER: a replica becomes primary, and the old primary does not know" }
      old = copy_of_primary
      put_in_charge(@twin || copy_of_primary)
      @twin = old
      @twin.serves = true
      @twin.age = 0
      nodes.each { |node| node.behind = true if node.state != :dead }
      requests.map! { |request| sent(request, OLD) }
    end

    # The sentinels tell a process of the new primary.
    def move(n)
      tell { "the process of #{names_in(n)} is told of the new primary" }
      nodes[n].told_of = true
      # Even without the rule `leave_old`, a process whose clients all rest makes its next
      # connection to the new primary.
      return unless rules[:leave_old] || rests?(n)

      nodes[n].behind = false
      leave_primary(n)
      scenario.tenants[n].each { |i| check_lease(i) }
      forget_old_primary
    end

    # A message is lost, although no connection breaks.
    def lose_message(n)
      spend(:drop)
      kind, value = nodes[n].inbox.shift
      tell { "LOST: a message to #{name(value)}" }
      return unless kind == :turn

      nodes[n].missed = value
      client_of(value).hurt = true
    end

    # The line of a lease that is granted now, by the server that executes the request.
    def line_here
      return OLD if @on_old || lags?

      serving_twin? || clients.any? { |client| old?(client) } ? NEW : BOTH
    end

    def old?(client) = client.line == OLD || (!client.reply.nil? && client.reply[5] == OLD)

    def serving_twin? = !@twin.nil? && @twin.serves

    private

    def failover_steps(steps)
      return unless scenario.fails_over

      failovers(steps) unless scenario.quiet && under_way?
      steps.concat(moves) if serving_twin? && !overdue?
      return unless left?(:drop)

      nodes.each_with_index do |node, n|
        lossy = node.state == :up && node.link == :on && node.inbox.any?
        steps << [:lose_message, n] if lossy && node.inbox.first[0] != :subscribed
      end
    end

    def under_way? =
      requests.any? || clients.any?(&:reply) || nodes.any? { |node| node.inbox.any? }

    def failovers(steps)
      ahead = left?(:fail_over) || left?(:split)
      steps << [:lag, nil] if left?(:lag) && ahead && @twin.nil? && active?
      steps << [:fail_over, nil] if left?(:fail_over) && !serving_twin? && active?
      steps << [:split, nil] if left?(:split) && !serving_twin? && active?
    end

    # Has the old primary served so long that the sentinels must have told every running process?
    def overdue? = @twin.age >= scenario.told

    def moves
      nodes.each_index.filter_map do |n|
        [:move, n] if nodes[n].state == :up && nodes[n].behind && !nodes[n].told_of
      end
    end

    def rests?(n) = scenario.tenants[n].all? { |i| OUTSIDE.include?(clients[i].phase) }

    def active? = lock || queue.any? || clients.any? { |client| !OUTSIDE.include?(client.phase) }

    OUTSIDE = %i[idle gone].freeze
    private_constant :OUTSIDE

    def lags? = !@twin.nil? && !@twin.serves

    def copy_of_primary = Twin.new(lock.dup, queue.dup, @companion, false, nil)

    def put_in_charge(copy)
      @lock, @queue, @companion = copy.lock.dup, copy.queue.dup, copy.companion
      @ghost = 0
    end

    # Runs the block on the old primary.
    def on_old_primary
      exchange
      @on_old = true
      yield
    ensure
      @on_old = false
      exchange
    end

    def exchange
      @lock, @twin.lock = @twin.lock, @lock
      @queue, @twin.queue = @twin.queue, @queue
      @companion, @twin.companion = @twin.companion, @companion
      @ghost, @twin.ghost = @twin.ghost || 0, @ghost
    end

    def sent(request, old)
      Request.new(request.op, request.value, request.ticket, request.late, old).freeze
    end

    # The server to which a process sends: nil for the main server, OLD or NEW for the old primary.
    # NEW means that the process has already been told of the new primary.
    def destination(node)
      return unless node.behind

      node.told_of ? NEW : OLD
    end

    # A process loses its connections. Its subscription ends, and messages on their way are lost.
    def leave_primary(n)
      return if nodes[n].state == :dead

      break_link(n, nodes[n].link == :none ? :none : :cut)
      nodes[n].heard = false
    end

    # The client notices at once that its process has lost its connections, and gives up its
    # request.
    def lose_what_was_under_way(i)
      client = clients[i]
      return unless client.age && client.reply.nil? && home(i).state == :up

      requests.reject! { |one| one.value == client.value && %i[acquire extend].include?(one.op) }
      client.age = nil
      despair(i) unless client.phase == :holding
    end

    # With the rule `repeat_release`, a release that the dead primary has not answered is sent to
    # the new primary. Without the rule, the release is lost.
    def repeat_releases
      return if rules[:repeat_release]

      requests.reject! { |request| request.op == :release }
    end

    # The holder has its lease renewed on the new primary, which may not know that lease.
    def check_lease(i)
      client = clients[i]
      return unless rules[:check_leases] && client.age.nil? && holds?(client)
      return unless home(i).state == :up

      tell { "#{name(client.value)} has its lease checked" }
      client.age = 0
      post(:extend, client.value)
    end

    # Checks a lease that an old primary granted or renewed after the process had left that primary.
    def check_late_lease(i)
      client = clients[i]
      stale = client.line == OLD && !home(i).behind && !lags?
      check_lease(i) if scenario.fails_over && stale && rules[:check_late]
    end

    def forget_old_primary
      return unless serving_twin?
      return if nodes.any?(&:behind) || requests.any? { |request| request.old && !request.late }

      tell { "the old primary is one no more" }
      requests.reject!(&:old)
      @twin = nil
    end

    def age_twin
      return unless @twin

      @twin.age += 1 if @twin.serves && @twin.age < scenario.told
      return unless @twin.lock

      @twin.lock.left -= 1
      return if @twin.lock.left.positive?

      tell { "on the #{@twin.serves ? "old primary" : "replica"} the lock key expires" }
      @twin.lock = nil
    end

    # Runs when time passes. By then, each process that knows the new primary must have asked it
    # about its leases.
    def check_told
      return if lags?

      clients.each_with_index do |client, i|
        next unless client.line == OLD && holds?(client) && home(i).state == :up && !home(i).behind
        next if home(i).away

        violate(:untold, "#{name(client.value)} does not know that its lease is lost")
      end
    end
  end
end
