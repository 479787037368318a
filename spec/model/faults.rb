# frozen_string_literal: true

module Model
  # The faults. Each kind may happen at any moment, as often as the scenario's budget allows.
  module Faults
    # A process dies. Requests that it has sent may still arrive or not. Its subscription ends.
    def crash(n, fault = :crash)
      spend(fault)
      tell { "CRASH of the process of #{names_in(n)}" }
      nodes[n] = Node.new(:dead, false, :none, false, [], 0, nil, nil, false, false)
      scenario.tenants[n].each do |i|
        make_late(clients[i].value)
        vanish(i)
      end
      nodes[n].look = nil
    end

    # Like crash, but only for a process whose clients are all waiting.
    def crash_in_line(n) = crash(n, :crash_in_line)

    # A process is stopped (SIGSTOP), or its machine hangs. It does nothing, but the server still
    # counts it as listening.
    def freeze_process(n, fault = :freeze)
      spend(fault)
      tell { "FREEZE of the process of #{names_in(n)}" }
      nodes[n].state = :frozen
      hurt(n)
    end

    # Like freeze_process, but only for a process whose clients are all waiting.
    def freeze_in_line(n) = freeze_process(n, :freeze_in_line)

    def thaw(n)
      tell { "THAW of the process of #{names_in(n)}" }
      nodes[n].state = :up
    end

    # The subscription breaks, and both sides notice. All messages under way are lost.
    def cut(n)
      spend(:cut)
      tell { "CUT of the subscription of #{names_in(n)}" }
      break_link(n, :cut)
      nodes[n].heard = false
    end

    # The subscription breaks, but neither side notices. The server counts messages as delivered,
    # but they are lost.
    def go_deaf(n)
      spend(:deaf)
      tell { "the subscription of #{names_in(n)} goes DEAF" }
      break_link(n, :deaf)
    end

    def notice_deafness(n)
      tell { "the process of #{names_in(n)} notices that its subscription is broken" }
      nodes[n].link = :cut
      nodes[n].heard = false
    end

    # A client gives up an acquire, because it receives no answer. The server may have executed the
    # request, may execute it later, or may never receive it.
    def lose_reply(i)
      spend(:lose)
      client = clients[i]
      tell { "LOST: #{name(client.value)} gives up its request" }
      make_late(client.value)
      client.hurt = true
      despair(i)
    end

    # A request that is neither an acquire nor a subscribe is lost, or delayed by any time.
    def lose_request(index)
      spend(:lose)
      tell { "LOST: a #{requests[index].op} of #{name(requests[index].value)}" }
      requests[index] = requests[index].dup.tap { |request| request.late = true }.freeze
    end

    # The holder renews its lease.
    def renew(i)
      spend(:renew)
      client = clients[i]
      tell { "#{name(client.value)} renews" }
      client.age = 0
      post(:extend, client.value)
    end

    # A writer becomes a reader. From now on, it no longer expects to be the only holder.
    def downgrade(i)
      spend(:downgrade)
      client = clients[i]
      tell { "#{name(client.value)} downgrades" }
      client.share = "r"
      client.age = 0
      post(:downgrade, client.value)
    end

    # The companion is lost, and with it the fence.
    def forget(_)
      spend(:forget)
      tell { "the companion is FORGOTTEN" }
      @companion = 0
    end

    # The queue is evicted or deleted.
    def evict(_)
      spend(:evict)
      tell { "the QUEUE is lost" }
      lose_queue
    end

    # All data is lost, by FLUSHALL or by a restart without persistence.
    def flush(_)
      spend(:flush)
      tell { "the server FORGETS everything" }
      lose_queue
      @lock = @expires = nil
      @inside = []
      @companion = 0
    end

    def set_clock_back(_)
      spend(:clock_back)
      tell { "the server's CLOCK is set back" }
      @clock -= 2
    end

    private

    def fault_steps
      steps = []
      node_faults(steps)
      client_faults(steps)
      failover_steps(steps)
      outage_steps(steps)
      if left?(:lose)
        requests.each_with_index do |request, i|
          steps << [:lose_request, i] unless request.late || LOSSLESS.include?(request.op)
        end
      end
      steps << [:forget, nil] if left?(:forget) && @companion.positive?
      steps << [:evict, nil] if left?(:evict) && queue.any? && may_lose_data?
      steps << [:flush, nil] if left?(:flush) && (queue.any? || lock || inside.any?)
      steps << [:set_clock_back, nil] if left?(:clock_back) && @clock.positive?
      steps
    end

    # lose_request does not lose these requests. lose_reply loses an acquire, and cut loses a
    # subscription.
    LOSSLESS = %i[acquire subscribe].freeze
    GIVES_UP = %i[looking subscribing asking waiting].freeze
    private_constant :LOSSLESS, :GIVES_UP

    def node_faults(steps)
      nodes.each_with_index do |node, n|
        steps << [:thaw, n] if node.state == :frozen
        next unless node.state == :up

        steps << [:notice_deafness, n] if node.link == :deaf
        active = scenario.tenants[n].any? { |i| !OUTSIDE.include?(clients[i].phase) }
        next unless active && scenario.tenants[n].all? { |i| victim?(i) }

        steps << [:crash, n] if left?(:crash)
        steps << [:freeze_process, n] if left?(:freeze)
        in_line = scenario.tenants[n].all? { |i| clients[i].phase == :waiting }
        # a fault in a process that has the baton would also lose the turn
        in_line = false if scenario.tries && lock&.baton && scenario.homes[owner(lock.value)] == n
        steps << [:crash_in_line, n] if left?(:crash_in_line) && in_line
        steps << [:freeze_in_line, n] if left?(:freeze_in_line) && in_line
        steps << [:cut, n] if left?(:cut) && SUBSCRIBED.include?(node.link)
        steps << [:go_deaf, n] if left?(:deaf) && node.link == :on
      end
    end

    OUTSIDE = %i[idle gone].freeze
    SUBSCRIBED = %i[sent on].freeze
    private_constant :OUTSIDE, :SUBSCRIBED

    def client_faults(steps)
      clients.each_with_index do |client, i|
        next unless home(i).state == :up

        if left?(:give_up) && !client.quits && GIVES_UP.include?(client.phase)
          steps << [:give_up, i]
        end
        steps << [:lose_reply, i] if left?(:lose) && client.age && client.phase != :holding
        if left?(:keep) && client.phase == :holding && client.left.positive?
          steps << [:finish_early, i]
        end
        if left?(:renew) && client.phase == :holding && client.age.nil? && client.left.positive?
          steps << [:renew, i]
        end
        if left?(:downgrade) && client.phase == :holding && client.share == "w" && client.age.nil?
          steps << [:downgrade, i]
        end
      end
    end

    def victim?(i) = scenario.victims.nil? || scenario.victims == scenario.shares[i]

    def left?(fault) = (budget[fault] || 0).positive?

    def spend(fault) = budget[fault] -= 1

    def make_late(value)
      requests.map! do |r|
        if r.value == value && !r.late && r.op != :subscribe
          Request.new(r.op, r.value, r.ticket, true, r.old).freeze
        else
          r
        end
      end
    end

    def break_link(n, link)
      nodes[n].link = link
      nodes[n].inbox = []
      nodes[n].buffered = 0
      requests.reject! do |request|
        request.op == :subscribe && scenario.homes[owner(request.value)] == n
      end
      hurt(n)
    end

    # The queue is lost. The server cannot call a waiter until the waiter has asked again.
    def lose_queue
      @queue = []
      nodes.each_index do |n|
        nodes[n].asked = false
        hurt(n)
      end
    end

    def hurt(n)
      scenario.tenants[n].each do |i|
        cut_off(clients[i], n) unless OUTSIDE.include?(clients[i].phase)
      end
    end
  end
end
