# frozen_string_literal: true

require_relative "supervisor"

module Support
  # A child of the suite, forked to run one block. Parent and child send each other Ruby objects
  # through two pipes. An example uses that to make them act in a fixed order:
  #
  #   child = Child.new do |parent|          # runs in the child
  #     parent.tell(:ready)
  #     parent.hear                          # waits, and returns :go
  #     42                                   # the block's value is the result
  #   end
  #   child.hear                             # => :ready
  #   child.tell(:go)
  #   child.result                           # => 42, or raises the block's error as Child::Failed
  #
  # The child ends with exit!, so that it does not run the suite's at_exit blocks and finalizers.
  class Child
    # The block raised, or the child died without a result.
    class Failed < StandardError; end
    # No message arrived by the deadline.
    class Silent < StandardError; end

    # In seconds: a sixth of the time that one example may take.
    DEADLINE = Supervisor::EXAMPLE_DEADLINE / 6

    # One end of the two pipes.
    class Line
      def initialize(from, to)
        @from = from
        @to = to
        @to.sync = true
      end

      def tell(message) = @to.write(Marshal.dump(message)) && true

      def hear(within: DEADLINE)
        raise Silent, "nothing heard for #{within} s" unless @from.wait_readable(within)

        Marshal.load(@from)
      rescue EOFError
        raise Failed, "the other process is gone"
      end

      def close
        @from.close unless @from.closed?
        @to.close unless @to.closed?
      end
    end

    attr_reader :pid

    def self.all = @all ||= []

    # Ends all children that an example forked, after the example.
    def self.end_all
      all.each(&:finish)
      all.clear
    end

    def initialize(&block)
      Supervisor.folder # starts the supervisor here, or the child would start its own
      hears, told = IO.pipe
      listens, says = IO.pipe
      @pid = Process.fork do
        told.close
        listens.close
        perform(Line.new(hears, says), block)
      end
      hears.close
      says.close
      @line = Line.new(listens, told)
      @owner = Process.pid
      Supervisor.watch(@pid)
      Child.all << self
    end

    def tell(message)
      @line.tell(message)
    rescue Errno::EPIPE
      hear # raises the error with which the child ended, if it sent one
      raise Failed, "the child has ended"
    end

    def hear(within: DEADLINE)
      message = @line.hear(within: within)
      return message unless message.is_a?(Array) && message.first == :failed!

      raise Failed, message.last
    end

    # Waits until the child has ended, and returns the block's value.
    def result(within: DEADLINE)
      word, value = hear(within: within)
      raise Failed, "the child said #{word.inspect} before its result" unless word == :result!

      wait(within: within)
      value
    end

    def signal(name) = Process.kill(name, pid)

    # Waits until the child has ended, and returns its Process::Status.
    def wait(within: DEADLINE)
      deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + within
      until @status
        _, @status = Process.wait2(pid, Process::WNOHANG)
        break if @status
        if Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline
          raise Silent, "the child lives on after #{within} s"
        end

        sleep 0.002
      end
      Supervisor.forget(pid)
      @status
    end

    # Kills the child if it still runs, and closes the pipes.
    def finish
      return unless @owner == Process.pid

      unless @status
        Process.kill(:KILL, pid)
        wait
      end
      @line.close
    end

    private

    def perform(line, block)
      trap(:INT, "DEFAULT") # RSpec's handler would only note the signal
      line.tell([:result!, block.call(line)])
      leave(0)
    rescue Exception => e # the parent must learn how the block ended
      line.tell([:failed!, "#{e.class}: #{e.message}\n  #{e.backtrace&.first(8)&.join("\n  ")}"])
      leave(1)
    end

    # Under valgrind, a child that ends, even by killing itself, first searches its whole heap.
    # That can take a minute, and valgrind does not report on children anyway. So the child
    # replaces itself with another program, which ends at once.
    def leave(status)
      ENV["PLOCK_VALGRIND"] ? exec("/bin/sh", "-c", "exit #{status}") : exit!(status)
    end
  end

  # The resources of a process, as the kernel sees them.
  module Inventory
    def self.available? = File.directory?("/proc/self/fd")

    # The targets of all open descriptors: "socket:[123]", "pipe:[45]", "/dev/null" …
    def self.descriptors(pid = "self")
      Dir.children("/proc/#{pid}/fd").filter_map do |fd|
        File.readlink("/proc/#{pid}/fd/#{fd}")
      rescue Errno::ENOENT
        nil # the descriptor with which this method lists the folder
      end
    end

    def self.connections(pid = "self") = descriptors(pid).grep(/\Asocket:/)

    def self.threads(pid = "self") = Dir.children("/proc/#{pid}/task").size
  end
end
