# frozen_string_literal: true

require "io/wait"
require_relative "journal"

module Torture
  # A process that runs on one processor and does nothing but wake up often. While it cannot wake
  # up, workers may not get that processor either, because this machine's host is busy, or because
  # too many processes are running. A thread of a worker cannot measure a delay by the host, because
  # the kernel counts that time neither as work nor as waiting.
  class Pulse
    BEAT = 0.005
    LATE = 0.005

    # The numbers of the processors that this process may use. If the system does not list them,
    # returns [0], for a single pulse on any processor.
    def self.processors
      list = File.read("/proc/self/status")[/^Cpus_allowed_list:\s*(\S+)/, 1]
      list.split(",").flat_map { |part| Range.new(*part.split("-").map(&:to_i).minmax).to_a }
    rescue SystemCallError
      [0]
    end

    # ends: a pipe. The pulse ends when the pipe is closed.
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
