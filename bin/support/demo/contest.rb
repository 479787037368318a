# frozen_string_literal: true

require "io/wait"
require "parse/lock"
require "ruby-progressbar"
require "securerandom"
require_relative "worker"

module Demo
  # Lets the workers contend for a while, kills one of them while it is inside, and records the
  # sections.
  class Contest
    WORKERS = 8
    DURATION_S = 3.0
    KILL_AFTER_S = 1.0
    TICK_S = 0.1
    READ_BYTES = Worker::RECORD_BYTES * 1024

    TTL_S = 1
    WAIT_S = 30

    Section = Struct.new(:worker, :overlapped, :waited_ns, :entered_ns, keyword_init: true)
    Result = Struct.new(:sections, :pids, :killed, :killed_ns, :failed, keyword_init: true)

    # The lock is a callable that receives the section as its block. The default is Parse::Lock.
    def initialize(store, lock: nil, duration: DURATION_S, output: $stdout)
      @store = store
      @key = "demo-#{SecureRandom.hex}"
      @secret = SecureRandom.hex
      @lock = lock || method(:hold)
      @duration = duration
      @output = output
      @sections = []
      @workers = []
    end

    def run
      Parse.synchronize_create_store = @store.url
      @output.puts "#{WORKERS} processes, one lock, #{@store.name}"
      contend
      @workers.each { |worker| worker.stop unless worker == @victim }
      failed = @workers.reject { |worker| worker == @victim || worker.wait.success? }.map(&:number)
      read_events until @events.eof?
      Result.new(sections: @sections, pids: @workers.to_h { |worker| [worker.number, worker.pid] },
                 killed: @killed_ns && @victim.number, killed_ns: @killed_ns, failed: failed)
    ensure
      clean_up
    end

    private

    def hold(&section) =
      Parse::Lock.acquire(@key, ttl: TTL_S, wait: WAIT_S, secret: @secret, &section)

    def contend
      @events, events = IO.pipe(binmode: true)
      @witness = File.join(Dir.tmpdir, "#{@key}.witness")
      uninterrupted do
        WORKERS.times { |number| @workers << Worker.new(number + 1, @lock, @witness, events) }
      end
      events.close
      watch
    end

    # Delays signals while workers start. After a signal, the demo ends the workers that it knows.
    # A worker that it does not know yet would continue, and take the lock after the clean-up.
    def uninterrupted
      heard = nil
      before = Worker::ENDINGS.to_h { |signal| [signal, trap(signal) { heard = signal }] }
      yield
    ensure
      before.each { |signal, handler| trap(signal, handler) }
      Process.kill(heard, Process.pid) if heard
    end

    def watch
      start = now
      bar =
        ProgressBar.create(
          title: "contending", total: @duration, output: @output, format: "%t |%B| %c of %u s"
        )
      until (elapsed = now - start) >= @duration
        bar.progress = elapsed.floor(1)
        choose_victim if @victim.nil? && elapsed >= KILL_AFTER_S
        read_events if @events.wait_readable(TICK_S)
      end
      bar.finish
    end

    # Chooses the worker that was inside last, and orders it to stay inside when it next enters.
    def choose_victim
      @victim = @workers.find { |worker| worker.number == @sections.last&.worker } || @workers.first
      @victim.stay
    end

    def read_events
      data = @events.readpartial(READ_BYTES)
      unless (data.bytesize % Worker::RECORD_BYTES).zero?
        data << @events.read(Worker::RECORD_BYTES - data.bytesize % Worker::RECORD_BYTES)
      end
      data
        .unpack(Worker::RECORD * (data.bytesize / Worker::RECORD_BYTES))
        .each_slice(4) { |record| note(*record) }
    end

    def note(worker, flags, waited_ns, entered_ns)
      overlapped = (flags & Worker::OVERLAPPED).positive?
      @sections << Section.new(
        worker: worker, overlapped: overlapped, waited_ns: waited_ns, entered_ns: entered_ns
      )
      return if (flags & Worker::STAYS).zero?

      @killed_ns = Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)
      @victim.kill
    end

    def clean_up
      Worker::ENDINGS.each { |signal| trap(signal, "IGNORE") }
      @workers.each(&:interrupt)
      @workers.each(&:await_end)
      File.delete(@witness) if @witness && File.exist?(@witness)
      lock_key = Plock.store_key(Parse::Lock::KEY_PREFIX, @key, @secret)
      @store.close(
        [lock_key, "plock:1:{#{lock_key}}:fence", "plock:1:{#{lock_key}}:queue"],
        @workers.map(&:pid)
      )
    end

    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end
end
