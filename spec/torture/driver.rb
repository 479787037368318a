# frozen_string_literal: true

require "fileutils"
require_relative "chronicle"
require_relative "onlooker"
require_relative "pulse"
require_relative "worker"
require_relative "../support/supervisor"

module Torture
  # Starts the workers, and disturbs them for the seconds of the round. Then it lets the workers
  # end, and inspects the keys that remain. All its decisions come from the seed, and their order
  # does not depend on time.
  class Driver
    OPENING = 1.5   # seconds without a blow at the start
    LAST_CALL = 4.0 # seconds for the longest call and its release
    ENDING = LAST_CALL + Worker::CLOSING_TIME + 4.0
    AFTERMATH = 2.0
    PROBE_WAIT = Plan::LONGEST_TTL + 2.0 # covers a killed holder's lease, a baton and a margin

    attr_reader :chronicle, :folder

    def initialize(seed:, seconds:, adapter:, course: ROUGH)
      @course = course
      @seed = seed
      @seconds = seconds
      @adapter = adapter
      @blows = new_blows(Torture.random(seed, :driver))
      @chronicle = Chronicle.new
      @folder = File.join(Support::Supervisor.folder, "torture-#{seed}-#{Clock.now}")
      Dir.mkdir(@folder)
      @slots = Array.new(course.workers)
      @thaws = {} # slot of a stopped worker => [when it must continue, when it was stopped]
      @lights = {} # slot of a worker in the dark => [when the dark must end, when it began]
      @born = 0
    end

    def run
      @arena = new_arena
      @ends, @ending = IO.pipe
      pulses = Pulse.processors.map { |processor| pulse(processor) }
      @slots.each_index { |slot| start(slot) }
      onlooker = new_onlooker
      deal_blows
      finish
      onlooker&.stop
      pulses.each { |pid| Process.wait(pid) && Support::Supervisor.forget(pid) }
      inspect_remains
    ensure
      @slots.compact.each { |life| end_by_force(life) }
      [@ends, @ending].each { |io| io&.close unless io&.closed? }
      @arena&.stop
    end

    private

    # --- workers and server ---

    def new_arena = Arena.new(@course)
    def new_blows(random) = Blows.new(random, @course)
    def new_onlooker = Onlooker.new(@arena, @adapter, chronicle, @course.look)
    def new_worker(**facts) = Worker.new(**facts)

    # --- workers ---

    def start(slot)
      name = (@born += 1).to_s
      worker = new_worker(seed: @seed, life: name, folder: @folder, adapter: @adapter,
                          address: @arena.address(slot), ends: @ends, course: @course)
      pid = Process.fork { become(worker) }
      Support::Supervisor.watch(pid)
      @slots[slot] = chronicle.born(name, slot, pid)
    end

    def pulse(processor)
      pid = Process.fork do
        @ending.close
        Pulse.new(processor, @folder, @ends).run
        Process.exit!(0)
      end
      Support::Supervisor.watch(pid)
      pid
    end

    def become(worker)
      Process.setpgid(0, 0) # a group of its own, to find children that outlive the worker
      @ending.close
      %i[INT TERM].each { |signal| trap(signal, "DEFAULT") }
      worker.run
      Process.exit!(0)
    rescue Exception => e # otherwise, the child would continue as a second driver
      worker.note(e.full_message(highlight: false))
      Process.exit!(1)
    end

    def reaped(life, status)
      Support::Supervisor.forget(life.pid)
      life.died = Clock.now
      thawed(life.slot, life.died)
      @slots[life.slot] = nil
      return if life.killed || status.success?

      chronicle.find(:crash, "worker #{life.name} ended by itself: #{status}\n#{words_of(life)}")
    end

    def words_of(life)
      Dir[File.join(@folder, "#{life.name}.{note,stderr}")].map { |path| File.read(path) }.join[
        0, 8_000
      ]
    end

    def reap
      @slots.compact.each do |life|
        _, status = Process.wait2(life.pid, Process::WNOHANG)
        reaped(life, status) if status
      end
    end

    # --- blows ---

    def deal_blows
      ends = Clock.now + Torture.ns(@seconds)
      idle_until([Clock.now + Torture.ns(OPENING), ends].min)
      while Clock.now < ends
        blow = @blows.draw
        idle_until([Clock.now + Torture.ns(blow.pause), ends].min)
        chronicle.count(blow.kind)
        __send__(blow.kind, blow)
        reap
        @slots.each_index { |slot| @slots[slot] || start(slot) }
      end
    end

    # Waits until this moment. Meanwhile, lets stopped workers continue, and lets workers in the
    # dark reach the server again, when that is due.
    def idle_until(moment)
      loop do
        due = @thaws.select { |_, (at, _)| at <= Clock.now }
        due.each_key { |slot| thaw(slot) }
        @lights.select { |_, (at, _)| at <= Clock.now }.each_key { |slot| light(slot) }
        next_one = [moment, *@thaws.values.map(&:first), *@lights.values.map(&:first)].min
        left = next_one - Clock.now
        return if left <= 0 && next_one == moment

        sleep left.fdiv(SECOND) if left.positive?
      end
    end

    def kill(blow) = (life = @slots[blow.slot]) && end_by_force(life)

    def end_by_force(life)
      life.killed = Clock.now
      Process.kill(:KILL, life.pid)
      reaped(life, Process.wait2(life.pid).last)
    end

    def stop(blow)
      return if @thaws.key?(blow.slot)

      now = Clock.now
      Process.kill(:STOP, @slots[blow.slot].pid)
      @thaws[blow.slot] = [now + Torture.ns(blow.duration), now]
    end

    def thaw(slot)
      Process.kill(:CONT, @slots[slot].pid)
      thawed(slot, Clock.now)
    end

    def thawed(slot, now)
      _, since = @thaws.delete(slot)
      @slots[slot].stops << [since, now] if since
    end

    def cut(blow, type = "normal")
      from = Clock.now
      slot = @arena.cut(type, blow.roll)
      @slots[slot].cuts << [from, Clock.now] if slot
    end

    def cut_pubsub(blow) = cut(blow, "pubsub")

    def flush(_blow) = @arena.flush_scripts

    # Deletes all keys, as an operator may do by mistake.
    def flushall(_blow) = forget(nil) { @arena.flush_all }

    # Deletes the queue or the companion of a lock, as a server that runs out of memory does.
    def evict(blow)
      roll = blow.roll * KEYS
      key = roll.floor
      victim = (roll % 1) < 0.5 ? @adapter.queue(key) : @adapter.companion(key)
      forget(key) { @arena.evict([victim]) } if victim
    end

    def forget(key)
      from = Clock.now
      yield
      chronicle.oblivions << Chronicle::Oblivion.new(from, Clock.now, key)
    end

    # Leaves one worker in the dark for some time. In half of the cases, the worker can still send,
    # so the server executes its requests.
    def dark(blow)
      relayed = @arena.relayed - @lights.keys
      roll = blow.roll * relayed.size
      slot = relayed[roll.floor] or return
      now = Clock.now
      @arena.darken(slot, deaf: (roll % 1) < 0.5)
      @lights[slot] = [now + Torture.ns(blow.duration), now]
    end

    def light(slot)
      _, since = @lights.delete(slot)
      @arena.lighten(slot)
      chronicle.darks[slot] << [since, Clock.now]
    end

    def restart(_blow) = chronicle.span(chronicle.downs) { @arena.restart }

    def calm(blow) = idle_until(Clock.now + Torture.ns(blow.duration))

    # --- the end ---

    def finish
      @thaws.keys.each { |slot| thaw(slot) }
      @lights.keys.each { |slot| light(slot) }
      @ending.close
      deadline = Clock.now + Torture.ns(self.class::ENDING)
      reap && sleep(0.02) while @slots.any? && Clock.now < deadline
      @slots.compact.each do |life|
        life.hung = true
        end_by_force(life)
      end
    end

    # Checks that each key can be acquired again, and that only lasting keys remain after that.
    def inspect_remains
      eventually("processes") do
        chronicle.lives.each_value.select { |life| group?(life.pid) }.map(&:name)
      end
      KEYS.times { |key| probe(key) if @adapter.ways.include?(Torture.way_to(key)) }
      eventually("connections") { [@arena.connections, @arena.channels].reject(&:zero?) }
      eventually("keys") { @arena.keys.reject { |key, ttl| may_stay?(key, ttl) }.to_a }
    end

    def may_stay?(key, ttl)
      return true if @adapter.permanent?(key)

      @adapter.lasting?(key) && ttl.between?(0, (24 * 3600) + @course.ttls.keys.max)
    end

    def eventually(what)
      deadline = Clock.now + Torture.ns(self.class::AFTERMATH)
      until (left = yield).empty?
        return chronicle.find(:leak, "#{what} left over: #{left.inspect}") if Clock.now > deadline

        sleep 0.02
      end
    end

    def group?(pid)
      Process.kill(0, -pid)
      true
    rescue Errno::ESRCH
      false
    end

    def probe(key)
      pid = Process.fork do
        sleep WITHIN if Torture.way_to(key) == ONCE # `once` does not wait for the window to end
        terms = { ttl: 1.0, wait: self.class::PROBE_WAIT, renew: false, label: "probe" }
        @adapter.new(@arena.unix_address(0)).enter(Torture.way_to(key), key, **terms) { nil }
        Process.exit!(0)
      rescue Refused, Failed
        Process.exit!(1)
      end
      _, status = Process.wait2(pid)
      unless status.success?
        chronicle.find(:stuck, "key #{key} cannot be acquired although no call is left: #{status}")
      end
    end
  end
end
