# frozen_string_literal: true

require "io/wait"
require "json"
require "rbconfig"
require_relative "bench"
require_relative "pinning"

module Bench
  # A contestant's process, bound to its core, and the dialog with it. An order is a line, and an
  # answer is a line of JSON. The process first reports its versions.
  class Conversation
    PATIENCE = 30 # seconds to wait for an answer, in addition to the order's own time
    FAREWELL = 5  # seconds for the process to end by itself

    attr_reader :contestant

    def initialize(contestant, core, *command, bundle: contestant.peer?)
      @contestant = contestant
      @io = IO.popen(environment(bundle), Pinning.command(core, *command), "r+")
    end

    def versions = @versions ||= reply.fetch("versions")

    # The process ends when its input ends. A process that hangs is killed.
    def stop
      @io.close_write
      unless left?(Process.clock_gettime(Process::CLOCK_MONOTONIC) + FAREWELL)
        Process.kill(:KILL, @io.pid)
      end
      @io.close
    end

    private

    # Returns whether the process ended before the deadline. Discards its unread answers.
    def left?(deadline)
      while @io.wait_readable([deadline - Process.clock_gettime(Process::CLOCK_MONOTONIC), 0].max)
        return true if @io.read_nonblock(4096, exception: false).nil?
      end
      false
    end

    # Peers run in the bench's bundle, and plock runs without a bundle. Neither inherits this
    # program's bundle.
    def environment(bundle)
      clean = { "RUBYOPT" => nil, "RUBYLIB" => nil, "BUNDLE_GEMFILE" => nil }
      bundle ? clean.merge("BUNDLE_GEMFILE" => GEMFILE) : clean
    end

    def order(line, seconds)
      tell(line)
      reply(seconds)
    end

    def tell(line)
      @io.puts(line)
    rescue Errno::EPIPE
      raise Failed, "#{@contestant.name} is gone"
    end

    def reply(seconds = 0)
      @io.wait_readable(seconds + PATIENCE) or raise Failed, "#{@contestant.name} does not answer"
      line = @io.gets or raise Failed, "#{@contestant.name} ended before it answered"
      JSON.parse(line)
    end
  end
end
