# frozen_string_literal: true

require "io/wait"
require "json"
require "rbconfig"
require_relative "bench"
require_relative "pinning"

module Bench
  # One contestant's process, bound to its core, and the conversation with it.
  class Runner
    PATIENCE = 30         # seconds for an answer, beyond what the order itself takes
    SLOWEST_PAIR = 0.001  # seconds
    FAREWELL = 5          # seconds to leave by itself

    attr_reader :contestant, :versions

    def initialize(contestant, address, placement, floor_program)
      @contestant = contestant
      @io = IO.popen(environment, Pinning.command(placement.client_core, *command(address, floor_program)), "r+")
      @versions = reply.fetch("versions")
    end

    def time(warm, seconds) = order("time #{warm} #{seconds}", warm + seconds)
    def count(pairs) = order("count #{pairs}", pairs * SLOWEST_PAIR)

    # Bytes of memory resident now; nil where the system does not tell it exactly.
    def resident
      path = "/proc/#{@io.pid}/smaps_rollup"
      File.exist?(path) ? Integer(File.read(path)[/^Rss:\s+(\d+) kB/, 1]) * 1024 : nil
    end

    # It leaves at the end of its input; one that hangs is killed.
    def stop
      @io.close_write
      @io.wait_readable(FAREWELL) or Process.kill(:KILL, @io.pid)
      @io.close
    end

    private

    # The peers run in their own bundle, plock in none; neither inherits the one this program may have been started in.
    def environment
      clean = { "RUBYOPT" => nil, "RUBYLIB" => nil, "BUNDLE_GEMFILE" => nil }
      @contestant.peer? ? clean.merge("BUNDLE_GEMFILE" => GEMFILE) : clean
    end

    def command(address, floor_program)
      if @contestant.floor?
        place = @contestant.transport == :unix ? address.socket : address.port
        return [floor_program, @contestant.transport.to_s, place.to_s]
      end
      path = @contestant.peer? ? ["-rbundler/setup"] : ["-I", LIB]
      [RbConfig.ruby, *path, File.join(__dir__, "worker.rb"), @contestant.name, address.port.to_s, address.socket]
    end

    def order(line, seconds)
      @io.puts(line)
      reply(seconds)
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
