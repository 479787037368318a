# frozen_string_literal: true

require "timeout"
require_relative "adapters"
require_relative "journal"
require_relative "plan"

module Torture
  # One thread or fiber of a worker: asks for one key after the other, and writes down what it was told and when.
  class Lane
    class Oops < StandardError; end # what a block raises

    OUTCOMES = %i[done refused failed interrupted oops unexpected].freeze
    STEP = 0.02 # seconds between two looks at a lease that is held for longer
    CHILD_WAIT = 0.05

    def initialize(worker, number)
      @worker = worker
      @number = number
      @random = Torture.random(worker.seed, worker.life, number)
      @journal = Journal.new(worker.folder, "#{worker.life}.#{number}")
      @count = 0
    end

    def run
      until @worker.ending?
        plan = Plan.draw(@random, @worker.lock.class.ways)
        rest(plan.pause)
        attempt(plan)
      end
    end

    private

    def attempt(plan)
      @count += 1
      spans = [plan.wait, plan.ttl, plan.interrupt || 0].map { |seconds| Torture.ns(seconds) }
      @journal.write(:ask, @count, plan.key, *spans, WAYS.index(plan.way))
      outcome = ask(plan)
    ensure
      Process.exit!(0) unless @worker.here? # the child of a fork inside the block has left it
      @journal.write(:end, @count, OUTCOMES.index(outcome || :unexpected))
    end

    def ask(plan)
      interrupted_after(plan.interrupt) do
        @worker.lock.enter(plan.way, plan.key, ttl: plan.ttl, wait: plan.wait, renew: plan.renew, label: label) do |leases|
          inside(plan, leases)
        end
      end
      :done
    rescue Refused then :refused
    rescue Failed then :failed
    rescue Oops then :oops
    rescue Timeout::Error then :interrupted
    rescue Exception => e # a finding, whatever it is
      @worker.note("lane #{@number}, call #{@count}: #{e.full_message(highlight: false)}")
      :unexpected
    end

    # By this the queue shows who it is.
    def label = "t#{@worker.life}x#{@number}x#{@count}"

    def interrupted_after(seconds, &block) = seconds ? Timeout.timeout(seconds, &block) : yield

    def inside(plan, leases)
      leases.each { |lease| @journal.write(:enter, @count, lease.fence, lease.valid_until, lease.key) }
      do_deed(plan, leases)
      hold(plan, leases)
    ensure
      leases.each { |lease| @journal.write(:leave, @count, lease.valid_until, lease.key) }
    end

    def hold(plan, leases)
      ends = Clock.now + Torture.ns(plan.hold)
      while (left = (ends - Clock.now).fdiv(SECOND)).positive? && @worker.here?
        rest([left, STEP].min)
        leases.each { |lease| look(lease) } if left > STEP
      end
    end

    # What the lease says of itself, between two looks at the clock.
    def look(lease)
      before = Clock.now
      says = lease.valid?
      @journal.write(:check, @count, lease.valid_until, says ? 1 : 0, before, lease.key)
    end

    def rest(seconds) = (sleep(seconds) if seconds.positive?)

    def do_deed(plan, leases)
      case plan.deed
      when :compact then GC.compact && @journal.write(:compact, @count)
      when :fork, :leave then fork_here(leases.first, leaves: plan.deed == :leave)
      when :downgrade then downgrade(leases.first)
      when :oops then raise Oops
      end
    end

    # From when it asks to be one it counts as a reader.
    def downgrade(lease)
      @journal.write(:downgrade, @count, lease.key)
      lease.downgrade
    end

    # The child of a fiber must not touch the scheduler, whose epoll descriptor is still the parent's: it does its part in a
    # fiber without one, and does not leave the block.
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

    # What it has inherited is not its own; and it asks for itself at once, on the store that it has inherited.
    def be_a_child(lease)
      life = "#{@worker.life}c#{@number}c#{@count}"
      Lane.new(Worker::Child.new(@worker, life), 0).ask_as_child(lease)
    rescue Exception => e # the parent learns it from the exit status, the report from the note
      @worker.note("child of lane #{@number}, call #{@count}: #{e.full_message(highlight: false)}")
      Process.exit!(1)
    end

    public

    def ask_as_child(lease)
      @journal.write(:inherited, 0, lease.valid? ? 1 : 0)
      KEYS.times do |key|
        way = Torture.way_to(key)
        next unless @worker.lock.class.ways.include?(way)

        attempt(Plan.new(way: way, pause: 0.0, key: key, wait: CHILD_WAIT, ttl: Plan::TTLS.keys.min, hold: 0.0, renew: false))
      end
    end
  end
end
