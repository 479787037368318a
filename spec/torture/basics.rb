# frozen_string_literal: true

require "zlib"

# The torture test: workers contend for a few keys while a driver does to them what production does,
# and a witness that does not ask the store judges what they wrote down. run.rb starts it, driver.rb
# has the cast.
module Torture
  SECOND = 1_000_000_000
  MILLISECOND = 1_000_000

  # What a store is opened with, and so what its calls promise.
  ATTEMPT_TIMEOUT = 0.2
  RELEASE_TIMEOUT = 0.5

  # What the journals of processors begin with; those of workers begin with a digit.
  PROCESSOR = "processor"

  # The one clock of all processes, that goes on while they are stopped.
  module Clock
    ID = defined?(Process::CLOCK_BOOTTIME) ? Process::CLOCK_BOOTTIME : Process::CLOCK_MONOTONIC

    def self.now = Process.clock_gettime(ID, :nanosecond)
  end

  def self.ns(seconds) = (seconds * SECOND).round

  # Whoever decides anything draws it from a generator of its own, so that what one does shifts
  # nothing for the others.
  def self.random(*path) = Random.new(Zlib.crc32(path.join("/")))
end
