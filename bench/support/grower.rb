# frozen_string_literal: true

require_relative "conversation"

module Bench
  # A process for the part `growth`. growth_worker.rb documents the orders.
  class Grower < Conversation
    LONG = 600 # seconds to wait for the answer to an order whose duration is measured

    # Starts this many processes, and yields them when all are ready.
    def self.start(contestant, address, placement, count)
      growers = []
      count.times { growers << new(contestant, address, placement) }
      growers.each(&:versions)
      yield growers
    ensure
      growers.each(&:stop)
    end

    def initialize(contestant, address, placement)
      super(
        contestant, placement.client_core, RbConfig.ruby, "-I", LIB,
        File.join(__dir__, "growth_worker.rb"), contestant.name, address.port.to_s, address.socket
      )
    end

    def hold(count) = order("hold #{count}", LONG)
    def release = order("release", LONG).fetch("released")
    def look(seconds) = order("look #{seconds}", LONG)
    def enter(key) = order("enter #{key}", 0)
    def leave = order("leave", 0).fetch("left_ns")
    def wait(key, count) = order("wait #{key} #{count}", LONG)
    def drained = order("drained", LONG).fetch("last_ns")
    def queue(key, count) = order("queue #{key} #{count}", LONG).fetch("queued_ns")

    def idle(seconds) = order("idle #{seconds}", seconds).fetch("cpu_ns")

    def visit(key, count, times) = order("visit #{key} #{count} #{times}", LONG).fetch("left_ns")

    def renew(count, cpu_seconds, event_seconds) =
      order("renew #{count} #{cpu_seconds} #{event_seconds}", LONG)
  end
end
