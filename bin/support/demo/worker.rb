# frozen_string_literal: true

require "timeout"
require_relative "witness"

module Demo
  # A process that enters the critical section again and again. Each time it is inside, it writes
  # a record to a pipe.
  class Worker
    # the worker's number, its flags, the nanoseconds that it waited, and the time of entry in
    # nanoseconds (on CLOCK_MONOTONIC, which is the same clock in all processes)
    RECORD = "CCQ>Q>"
    RECORD_BYTES = 18
    OVERLAPPED = 1
    STAYS = 2

    STAY = "s"
    STOP = "e"

    # The duration of a section. It is short, because the contest is about the lock.
    WORK_S = 0.002

    GRACE_S = 2

    ENDINGS = %i[INT TERM HUP].freeze

    attr_reader :number, :pid

    def initialize(number, lock, witness_path, events)
      @number = number
      @lock = lock
      orders, @orders = IO.pipe
      @pid = fork do
        ENDINGS.each { |signal| trap(signal, "DEFAULT") }
        # a terminal sends SIGINT to every process, but the demo itself orders the workers to stop
        trap(:INT, "IGNORE")
        @orders.close
        work(orders, Witness.new(witness_path), events)
        exit!(true)
      end
      orders.close
    end

    # Orders the worker to enter once more, and then to stay inside until it is killed.
    def stay = @orders.write(STAY)

    # Orders the worker to end after its next section. The worker ends in the same way if the demo
    # has ended, because that closes the pipe from the demo to the worker.
    def stop
      @orders.write(STOP)
    rescue Errno::EPIPE
      nil # the worker has ended
    end

    def kill
      Process.kill(:KILL, @pid) unless @status
      wait
    end

    # Makes the worker stop at once. On SIGTERM, the worker releases the lock and takes back its
    # requests, so that no request reaches the server after the worker's end. The worker also gets
    # the order to stop, because a new worker may not handle the signal yet.
    def interrupt
      return if @status

      stop
      Process.kill(:TERM, @pid)
    end

    def await_end
      Timeout.timeout(GRACE_S) { wait }
    rescue Timeout::Error
      kill
    end

    def wait = @status ||= Process.wait2(@pid).last

    private

    def work(orders, witness, events)
      order = nil
      while order.nil? || order == :wait_readable
        asked = now
        @lock.call do
          entered = now
          alone = witness.enter
          order = orders.read_nonblock(1, exception: false) || STOP
          flags = (alone ? 0 : OVERLAPPED) | (order == STAY ? STAYS : 0)
          events.write([@number, flags, entered - asked, entered].pack(RECORD))
          order == STAY ? sleep : sleep(WORK_S)
          witness.leave
        end
      end
    end

    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)
  end
end
