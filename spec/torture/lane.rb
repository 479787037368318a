# frozen_string_literal: true

require "timeout"
require_relative "adapters"
require_relative "journal"
require_relative "plan"

module Torture
  # One thread or fiber of a worker. It makes one call after another, and records their results
  # and times.
  class Lane
    class Oops < StandardError; end # the error that a block raises

    OUTCOMES = %i[done refused failed interrupted oops unexpected].freeze
    STEP = 0.02 # seconds between two looks at a lease that is held for long
    CHILD_WAIT = 0.05
    HELPERS = 2 # threads that extend a lease together
    EXTENSIONS = 5 # the number of extensions by each helper
    BEAT = 0.0005 # seconds between two extensions by a heartbeat
    STAY = 0.3 # seconds that the holder stays after all of its waiters have given up
    ADOPTED_TTL = 5.0
    ADOPTED_STAY = 0.03
    MANY = 50 # workers with more threads than this have journals with small pages

    def initialize(worker, number)
      @worker = worker
      @number = number
      @random = Torture.random(worker.seed, worker.life, number)
      many = worker.course.threads > MANY
      @journal = Journal.new(worker.folder, "#{worker.life}.#{number}",
                             page: many ? Journal::SMALL_PAGE : Journal::PAGE)
      @helpers = []
      @count = 0
    end

    def run
      until @worker.ending?
        plan = Plan.draw(@random, @worker.lock.ways, @worker.course)
        rest(plan.pause)
        join_exodus(plan) if @worker.course.exodus?
        attempt(plan)
        adopt_twice if @dump
      end
    end

    # plock warns of a failed release or a loss at the end of the block, in the fiber that runs the
    # block.
    def unreleased = @journal.write(:unreleased, @count)
    # key: nil if the warning does not name it.
    def lost(key = nil) = @journal.write(:lost, @count, Clock.now, 0, key ? key + 1 : 0)

    private

    def join_exodus(plan)
      plan.wait = @worker.course.to_exodus
      plan.hold = plan.wait + STAY
    end

    def attempt(plan)
      Thread.current[:torture_lane] = self # is only visible in this fiber
      @count += 1
      @left = nil
      spans = [plan.wait, plan.ttl, plan.interrupt || 0].map { |seconds| Torture.ns(seconds) }
      @journal.write(:ask, @count, plan.key, *spans, WAYS.index(plan.way))
      @journal.write(:adopts, @count, plan.dump.first) if plan.dump
      @journal.write(:watched, @count) if plan.renew && plan.way.leases?
      outcome = ask(plan)
    ensure
      Process.exit!(0) unless @worker.here? # this is a forked child that has left the block
      @journal.write(:end, @count, OUTCOMES.index(outcome || :unexpected))
      end_helpers
    end

    def ask(plan)
      interrupted_after(plan.interrupt) do
        terms = { ttl: plan.ttl, wait: plan.wait }
        terms.update(renew: plan.renew, label: label) unless plain?(plan)
        terms[:dump] = plan.dump.last if plan.dump
        @worker.lock.enter(plan.way, plan.key, **terms) do |leases|
          inside(plan, leases)
        end
      end
      :done
    rescue Refused then :refused
    rescue Lost
      lost
      :failed
    rescue Failed then :failed
    rescue Oops then :oops
    rescue Timeout::Error then :interrupted
    rescue Exception => e # any other exception is a finding
      @worker.note("lane #{@number}, call #{@count}: #{e.full_message(highlight: false)}")
      :unexpected
    end

    # Does this call have no options, so that it takes the short way through C?
    def plain?(plan) = Torture.plain?(@number) && !plan.renew && plan.way.name != :once

    # In the queue, this label identifies the call.
    def label = "t#{@worker.life}x#{@number}x#{@count}"

    def interrupted_after(seconds, &block) = seconds ? Timeout.timeout(seconds, &block) : yield

    def inside(plan, leases)
      leases.each do |lease|
        @journal.write(:enter, @count, lease.fence, lease.valid_until, lease.key)
      end
      do_deed(plan, leases)
      hold(plan, leases) unless @dump
    ensure
      @left = Clock.now
      leases.each { |lease| @journal.write(:leave, @count, lease.valid_until, lease.key) }
    end

    def hold(plan, leases)
      ends = Clock.now + Torture.ns(plan.hold)
      while (left = (ends - Clock.now).fdiv(SECOND)).positive? && @worker.here?
        rest([left, STEP].min)
        leases.each { |lease| look(lease) } if left > STEP
      end
    end

    # Records whether the lease says that it is valid, and the times before and after that answer.
    def look(lease)
      before = Clock.now
      says = lease.valid?
      @journal.write(:check, @count, lease.valid_until, says ? 1 : 0, before, lease.key)
    end

    def rest(seconds) = (sleep(seconds) if seconds.positive?)

    def do_deed(plan, leases)
      return if Plan::TO_LEASES.include?(plan.deed) && !@worker.lock.class.native?

      case plan.deed
      when :heartbeat then start_heartbeat(leases.first)
      when :pair then extend_together(leases.first)
      when :handover then hand_over(leases.first)
      when :compact then GC.compact && @journal.write(:compact, @count)
      when :fork, :leave then fork_here(leases.first, leaves: plan.deed == :leave)
      when :downgrade then downgrade(leases.first)
      when :oops then raise Oops
      end
    end

    # Starts a thread that extends the lease as often as it can, even while the block ends and
    # releases the lease.
    def start_heartbeat(lease)
      call = { over: false }
      thread = Thread.new { [lease, told_by { extend_until(lease, call) }] }
      @helpers << [call, thread]
    end

    def extend_until(lease, call)
      until call[:over]
        lease.extend
        sleep BEAT
      end
    end

    def extend_together(lease)
      barrier = Queue.new
      threads = Array.new(HELPERS) do
        Thread.new { barrier.pop && told_by { EXTENSIONS.times { lease.extend } } }
      end
      HELPERS.times { barrier << true }
      threads.each { |thread| note_extension(lease, thread.value) }
    end

    # @return [Array, nil] the kind of the failure, and its time or message; nil if the block
    #   succeeds
    def told_by
      yield
      nil
    rescue Plock::LeaseLost
      [:lost, Clock.now]
    rescue Plock::Error => e
      [:unextended, e.message]
    end

    def end_helpers
      @helpers.each { |call,| call[:over] = true }
      @helpers.each { |_, thread| note_extension(*thread.value) }
      @helpers.clear
    end

    # Ignores a failure that comes after the lease's own block has ended, because the block's end
    # releases the lease.
    def note_extension(lease, told)
      kind, detail = told
      return if kind.nil? || left_by?(kind == :lost ? detail : Clock.now)

      numbers = kind == :lost ? [detail, lease.valid_until, lease.key + 1] : [lease.key]
      @journal.write(kind, @count, *numbers)
    end

    def left_by?(moment) = @left && @left <= moment

    def hand_over(lease)
      return if Fiber.current_scheduler # a child of a fiber cannot run calls as a lane does

      fence = lease.fence
      @dump = [fence, lease.dump, lease.key]
      @journal.write(:handed, @count, lease.key)
    end

    # Adopts the same dump in this process and in a child process, at the same time.
    def adopt_twice
      fence, text, key = @dump
      @dump = nil
      plan = Plan.new(way: ADOPT, pause: 0.0, key: key, wait: 0.0, ttl: ADOPTED_TTL,
                      hold: ADOPTED_STAY, renew: false, dump: [fence, text])
      ready, says = IO.pipe
      pid = Process.fork { adopt_as_child(plan, says) }
      says.close
      ready.read(1)
      ready.close
      attempt(plan)
      _, status = Process.wait2(pid)
      @journal.write(:child, @count, status.success? ? 1 : 0)
    end

    def adopt_as_child(plan, says)
      lane = child_lane
      says.write(".")
      lane.__send__(:attempt, plan)
      Process.exit!(0)
    rescue Exception => e # otherwise, the child would continue as a second parent
      @worker.note("child of lane #{@number}: #{e.full_message(highlight: false)}")
      Process.exit!(1)
    end

    # The holder counts as a reader from the moment at which it asks for the downgrade, because
    # readers may enter before the answer arrives.
    def downgrade(lease)
      @journal.write(:downgrade, @count, lease.key)
      lease.downgrade
    end

    # A child forked in a fiber must not touch the scheduler, because the scheduler's epoll
    # descriptor still belongs to the parent. So the child runs in a fiber without a scheduler, and
    # exits inside it.
    def fork_here(lease, leaves:)
      pid = Process.fork
      if pid
        _, status = Process.wait2(pid)
        @journal.write(:child, @count, status.success? ? 1 : 0)
      elsif Fiber.current_scheduler
        Fiber.new(blocking: true) { be_a_child(lease) && Process.exit!(0) }.resume
      else
        be_a_child(lease)
        Process.exit!(0) unless leaves
      end
    end

    # Checks in a forked child that the inherited lease does not belong to the child. Then the
    # child acquires locks of its own through the inherited store.
    def be_a_child(lease)
      child_lane.ask_as_child(lease)
    rescue Exception => e # the exit status tells the parent, and the note tells the report
      @worker.note("child of lane #{@number}, call #{@count}: #{e.full_message(highlight: false)}")
      Process.exit!(1)
    end

    def child_lane
      self.class.new(Worker::Child.new(@worker, "#{@worker.life}c#{@number}c#{@count}"), 0)
    end

    public

    def ask_as_child(lease)
      @journal.write(:inherited, 0, lease.valid? ? 1 : 0)
      KEYS.times do |key|
        way = Torture.way_to(key)
        next unless @worker.lock.ways.include?(way)

        attempt(Plan.new(way: way, pause: 0.0, key: key, wait: CHILD_WAIT, hold: 0.0, renew: false,
                         ttl: @worker.course.ttls.keys.min))
      end
    end
  end
end
