# frozen_string_literal: true

require_relative "conversation"

module Bench
  # One process that contends for keys. contender_worker.rb documents the orders. If an order makes
  # the process wait for the lock, the answer comes late. So the parent reads that answer later, and
  # meanwhile sends orders to other processes.
  class Contender < Conversation
    # The number of processes that start at a time. If more started on one core, their first
    # answers would come too late.
    STARTING = 16

    # Starts `each` processes for each contestant, and yields them when all are ready.
    def self.start(contestants, address, placement, each: 1, bundle: false)
      contenders = []
      contestants.each do |one|
        each.times do
          contenders << new(one, address, placement, bundle: bundle)
          contenders.each(&:versions) if (contenders.size % STARTING).zero?
        end
      end
      contenders.each(&:versions)
      yield contenders
    ensure
      contenders.each(&:stop)
    end

    def initialize(contestant, address, placement, bundle: false)
      bundle ||= contestant.peer?
      path = [*("-rbundler/setup" if bundle), *(["-I", LIB] if contestant.ours?)]
      program = File.join(__dir__, "contender_worker.rb")
      super(
        contestant, placement.client_core, RbConfig.ruby, *path, program, contestant.name,
        address.port.to_s, address.socket, bundle: bundle
      )
    end

    def enter(key) = tell("enter #{key}")
    def entered = reply(WAIT)
    def kill = Process.kill(:KILL, @io.pid)
    def leave = tell("leave")
    def left = order("left?", WAIT)

    def contend(key, threads, start, finish) = tell("contend #{key} #{threads} #{start} #{finish}")
    def contended(seconds) = reply(seconds + WAIT)

    def enter_fibers(key, count) = tell("fibers #{key} #{count}")
    def fibers_asked = reply
    def fibers_done = reply(WAIT)
  end
end
