# frozen_string_literal: true

require "io/wait"
require_relative "journal"

module Torture
  # A process that stays on one processor and only wakes up often. If it could not, no process could
  # run on that processor: the host of this machine was busy, or too much ran here. No thread of a
  # worker can measure that itself, because the kernel counts such time neither as work nor as a
  # wait.
  class Pulse
    BEAT = 0.005
    LATE = 0.005

    # The processors that this process may use. If the system does not tell: one, for any processor.
    def self.processors
      list = File.read("/proc/self/status")[/^Cpus_allowed_list:\s*(\S+)/, 1]
      list.split(",").flat_map { |part| Range.new(*part.split("-").map(&:to_i).minmax).to_a }
    rescue SystemCallError
      [0]
    end

    # ends: a pipe that is closed when it is time to end.
    def initialize(processor, folder, ends)
      @processor = processor
      @journal = Journal.new(folder, "#{PROCESSOR}#{processor}.pulse")
      @ends = ends
    end

    def run
      pin
      last = Clock.now
      until @ends.wait_readable(BEAT)
        from, last = last, Clock.now
        gap = last - from - Torture.ns(BEAT)
        @journal.write(:gap, from, last, gap) if gap > Torture.ns(LATE)
      end
    end

    private

    def pin
      system(
        "taskset", "--cpu-list", "--pid", @processor.to_s, Process.pid.to_s, out: File::NULL,
        err: File::NULL
      )
    end
  end
end
