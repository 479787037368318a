# frozen_string_literal: true

require "io/wait"
require "json"
require "rbconfig"
require_relative "bench"
require_relative "pinning"

module Bench
  # The process of a contestant, bound to its core, and the dialog with it: orders are lines,
  # answers are lines of JSON. It first reports its versions.
  class Conversation
    PATIENCE = 30 # seconds for an answer, beyond what the order itself takes
    FAREWELL = 5  # seconds to leave by itself

    attr_reader :contestant

    def initialize(contestant, core, *command, bundle: contestant.peer?)
      @contestant = contestant
      @io = IO.popen(environment(bundle), Pinning.command(core, *command), "r+")
    end

    def versions = @versions ||= reply.fetch("versions")

    # It ends at the end of its input; a process that hangs is killed.
    def stop
      @io.close_write
      unless left?(Process.clock_gettime(Process::CLOCK_MONOTONIC) + FAREWELL)
        Process.kill(:KILL, @io.pid)
      end
      @io.close
    end

    private

    # Unread answers may come first.
    def left?(deadline)
      while @io.wait_readable([deadline - Process.clock_gettime(Process::CLOCK_MONOTONIC), 0].max)
        return true if @io.read_nonblock(4096, exception: false).nil?
      end
      false
    end

    # The peers run in their own bundle, plock in none. Neither inherits the bundle of this program.
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
