# frozen_string_literal: true

require_relative "supervisor"

module Support
  # A child of the suite, forked to run one block. Both sides talk in Ruby objects over two pipes,
  # and that is what orders things in tests:
  #
  #   child = Child.new do |parent|          # runs in the child
  #     parent.tell(:ready)
  #     parent.hear                          # => :go, when the other side says so
  #     42                                   # the block's value is the result
  #   end
  #   child.hear                             # => :ready
  #   child.tell(:go)
  #   child.result                           # => 42, or raises the block's error as Child::Failed
  #
  # The child ends with exit!, so that nothing of the suite's own (at_exit, RSpec, finalizers) runs
  # twice.
  class Child
    # The block raised, or the child died without a result.
    class Failed < StandardError; end
    # Nothing was heard by the deadline.
    class Silent < StandardError; end

    # Seconds: of what one example may take.
    DEADLINE = Supervisor::EXAMPLE_DEADLINE / 6

    # One end of the conversation.
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

    # After an example: nothing that it forked lives on.
    def self.end_all
      all.each(&:finish)
      all.clear
    end

    def initialize(&block)
      Supervisor.folder # starts it now: it must be the suite's child, not the child's
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
      hear # why it ended, if it said so
      raise Failed, "the child has ended"
    end

    def hear(within: DEADLINE)
      message = @line.hear(within: within)
      return message unless message.is_a?(Array) && message.first == :failed!

      raise Failed, message.last
    end

    # The block's value; waits for the child's end.
    def result(within: DEADLINE)
      word, value = hear(within: within)
      raise Failed, "the child said #{word.inspect} before its result" unless word == :result!

      wait(within: within)
      value
    end

    def signal(name) = Process.kill(name, pid)

    # Its Process::Status at its end.
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

    # Kills it if it still runs, and closes the pipes.
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
      trap(:INT, "DEFAULT") # RSpec's own handler would only make a note of it
      line.tell([:result!, block.call(line)])
      leave(0)
    rescue Exception => e # the parent must learn of every end of the block
      line.tell([:failed!, "#{e.class}: #{e.message}\n  #{e.backtrace&.first(8)&.join("\n  ")}"])
      leave(1)
    end

    # Valgrind, which says nothing of children, looks through the whole heap at the end of each,
    # also if it kills itself: that can take a minute. Another program in its place has no such end.
    def leave(status)
      ENV["PLOCK_VALGRIND"] ? exec("/bin/sh", "-c", "exit #{status}") : exit!(status)
    end
  end

  # The resources of a process, as the kernel sees them.
  module Inventory
    def self.available? = File.directory?("/proc/self/fd")

    # "socket:[123]", "pipe:[45]", "/dev/null" ... of all open descriptors.
    def self.descriptors(pid = "self")
      Dir.children("/proc/#{pid}/fd").filter_map do |fd|
        File.readlink("/proc/#{pid}/fd/#{fd}")
      rescue Errno::ENOENT
        nil # the one that lists the folder
      end
    end

    def self.connections(pid = "self") = descriptors(pid).grep(/\Asocket:/)

    def self.threads(pid = "self") = Dir.children("/proc/#{pid}/task").size
  end
end
