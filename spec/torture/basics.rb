# frozen_string_literal: true

require "zlib"

# The torture test. Workers contend for a few keys, and a driver disturbs them with failures that
# happen in production. A witness judges the workers' journals without asking the store. run.rb
# starts a run, and driver.rb starts the workers and the server.
#
# Each worker has a slot. When a worker dies, a new worker takes its slot. A worker makes its calls
# on several lanes, which are threads or fibers. A blow is one disturbance by the driver. A worker
# is in the dark while it cannot receive from the server. A course is a kind of round.
module Torture
  SECOND = 1_000_000_000
  MILLISECOND = 1_000_000

  # The timeouts of the stores, which limit how long their calls may take.
  ATTEMPT_TIMEOUT = 0.2
  RELEASE_TIMEOUT = 0.5
  COMMAND_TIMEOUT = 0.5

  # The name of a processor's journal begins with this. The names of workers' journals begin with
  # a digit.
  PROCESSOR = "processor"

  # The clock that all processes share. It does not stand still while a process is stopped.
  module Clock
    ID = defined?(Process::CLOCK_BOOTTIME) ? Process::CLOCK_BOOTTIME : Process::CLOCK_MONOTONIC

    def self.now = Process.clock_gettime(ID, :nanosecond)
  end

  def self.ns(seconds) = (seconds * SECOND).round

  # A random generator for each part of the test, so that one part's decisions do not change those
  # of the other parts.
  def self.random(*path) = Random.new(Zlib.crc32(path.join("/")))
end
