# frozen_string_literal: true

# The process of one contender: `contender_worker.rb NAME PORT SOCKET`. It reads orders from its
# standard input, and answers with lines of JSON. Times are in nanoseconds, on the clock that all
# processes share.
#
#   enter KEY           acquires the key and stays inside; answers when it is inside
#   leave               releases the key; no answer, because that would delay the waiters
#   left?               answers with the time at which it left
#   contend KEY THREADS START FINISH
#                       each thread enters and leaves again and again until FINISH; answers for each
#                       thread with its number of entries after START, and its longest wait
#   fibers KEY COUNT    this many fibers enter and leave, each once; answers first when all have
#                       asked, and again when all are done

require_relative "answering"

module Bench
  class ContenderWorker
    include Answering

    def initialize(contestant, address)
      @contestant = contestant
      @locks = contestant.contender.call(address)
      @lock = @locks.call
      held("bench:ready:#{Process.pid}") # opens connections and loads scripts
    end

    def run
      answer("versions" => versions)
      while (line = $stdin.gets)
        order, *arguments = line.split
        case order
        when "enter"
          enter(*arguments)
        when "left?"
          answer("left_ns" => @left)
        when "contend"
          answer(
            "shares" => contend(arguments.first, *arguments.drop(1).map { |text| Integer(text) })
          )
        when "fibers"
          fibers(arguments.first, Integer(arguments.last))
        else
          raise Failed, "an order it does not know: #{line}"
        end
      end
    end

    private

    def held(key, lock = @lock, &inside)
      section = proc do
        inside&.call
        :held
      end
      lock.call(key, section) == :held or raise Failed, "the block was not entered"
    end

    def enter(key)
      spent = cpu
      asked = Bench.now
      held(key) do
        entered = Bench.now
        answer("asked_ns" => asked, "entered_ns" => entered, "cpu_ns" => cpu - spent)
        $stdin.gets # "leave", or the end of the input
        @left = Bench.now
      end
    end

    def contend(key, threads, start, finish)
      return [stay_at(key, @lock, start, finish)] if threads == 1

      Array
        .new(threads) { Thread.new(@locks.call) { |lock| stay_at(key, lock, start, finish) } }
        .map(&:value)
    end

    # Counts the sections from START to FINISH. The longest wait includes a wait that has not
    # ended at FINISH.
    def stay_at(key, lock, start, finish)
      sections = longest = entered = 0
      section = proc do
        entered = Bench.now
        :held
      end
      while (asked = Bench.now) < finish
        lock.call(key, section) == :held or raise Failed, "the block was not entered"
        next if entered < start

        sections += 1 if entered < finish
        longest = entered - asked if entered - asked > longest
      end
      [sections, longest]
    end

    # The reactor has its own thread, so that this thread can answer when all fibers have asked.
    def fibers(key, count)
      require "async"

      # Raises the limit of open files, because a contestant may open a connection for each fiber.
      # The result then shows how many it opened. With the lower limit, the process would fail.
      Process.setrlimit(:NOFILE, Process.getrlimit(:NOFILE).last)
      asked = Queue.new
      reactor =
        Thread.new do
          Sync { |task| Array.new(count) { task.async { enter_as_fiber(key, asked) } }.map(&:wait) }
        end
      count.times { asked.pop }
      answer("asked" => count)
      waits = reactor.value
      answer("entered" => waits.compact.size, "last_ns" => Bench.now, "gave_up" => waits.count(nil))
    end

    # Returns nil if the fiber did not get the key in time.
    def enter_as_fiber(key, asked)
      entered = nil
      asked << true
      held(key) { entered = Bench.now }
      entered
    rescue Parse::Lock::TimeoutError
      nil
    end

    # The CPU time of the whole process, including its native threads.
    def cpu = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID, :nanosecond)
  end
end

Bench::Answering.begin(__FILE__, Bench::ContenderWorker)
