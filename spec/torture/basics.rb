# frozen_string_literal: true

require "zlib"

# The torture test. Workers contend for a few keys, and a driver disturbs them as production does. A
# witness, which does not ask the store, judges their journals. run.rb starts it; driver.rb has the
# workers and the server.
module Torture
  SECOND = 1_000_000_000
  MILLISECOND = 1_000_000

  # The options of the stores, and so the promises of their calls.
  ATTEMPT_TIMEOUT = 0.2
  RELEASE_TIMEOUT = 0.5
  COMMAND_TIMEOUT = 0.5

  # The beginning of the name of a processor's journal; those of workers begin with a digit.
  PROCESSOR = "processor"

  # The clock of all processes, which goes on while they are stopped.
  module Clock
    ID = defined?(Process::CLOCK_BOOTTIME) ? Process::CLOCK_BOOTTIME : Process::CLOCK_MONOTONIC

    def self.now = Process.clock_gettime(ID, :nanosecond)
  end

  def self.ns(seconds) = (seconds * SECOND).round

  # Each part draws its decisions from its own generator, so that one part's decisions do not shift
  # those of others.
  def self.random(*path) = Random.new(Zlib.crc32(path.join("/")))
end
