# frozen_string_literal: true

require "timeout"
require_relative "witness"

module Demo
  # A process that enters the critical section again and again, and reports each time on a pipe,
  # from inside.
  class Worker
    # number, flags, nanoseconds waited, instant of entry (CLOCK_MONOTONIC is the same clock in all
    # processes)
    RECORD = "CCQ>Q>"
    RECORD_BYTES = 18
    OVERLAPPED = 1
    STAYS = 2

    STAY = "s"
    STOP = "e"

    # The length of a section; short, because the contest is about the lock.
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
        # a terminal sends it to every process; the demo itself tells the workers to stop
        trap(:INT, "IGNORE")
        @orders.close
        work(orders, Witness.new(witness_path), events)
        exit!(true)
      end
      orders.close
    end

    # From its next entry on it stays inside.
    def stay = @orders.write(STAY)

    # Its next section is its last one, as if the demo were gone and this pipe closed.
    def stop
      @orders.write(STOP)
    rescue Errno::EPIPE
      nil # it has ended
    end

    def kill
      Process.kill(:KILL, @pid) unless @status
      wait
    end

    # It releases and takes back all that it asked for, so that no request of it reaches the server
    # after its end. A worker that takes too long is killed. It also gets the order to stop: it may
    # have been too young for the signal.
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
