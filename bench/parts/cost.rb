# frozen_string_literal: true

require_relative "../support/part"
require_relative "../support/relay"

module Bench
  # What is the cost of a process that only waits?
  class Cost < Part
    NAME = "cost"
    TITLE = "The cost of a waiter"

    # seconds of the first wait, in which a process also prepares for later waits
    FIRST = 0.3
    PREPARING = %w[AUTH CLIENT HELLO PSUBSCRIBE SCRIPT SELECT SUBSCRIBE].freeze

    COLUMNS = {
      "contestant" => ->(r) { r.contestant.label },
      "commands" => ->(r) { r.wait.commands.size.to_s },
      "CPU ms" => ->(r) { format("%.2f", r.wait.cpu_ms) },
      "connections" => ->(r) { r.connections.to_s },
      "to prepare: commands" => ->(r) { r.preparing.to_s },
      "first wait: CPU ms" => ->(r) { format("%.2f", r.first.cpu_ms) }
    }.freeze

    COMMANDS = 4
    CPU_MS = 2

    # commands: the names of the commands that the waiter sent. connections: the number of all
    # connections to the server. cpu_ms: the waiter's CPU time in milliseconds.
    Wait = Struct.new(:commands, :connections, :cpu_ms) do
      def to_h = super.merge(commands: commands.tally)
    end

    # first: the first Wait. wait: the Wait that is measured. connections: the number of the
    # waiter's connections.
    Result = Struct.new(:contestant, :first, :wait, :connections) do
      def preparing = first.commands.count { |name| PREPARING.include?(name) }

      def to_h =
        {
          contestant: contestant.name, wait: wait.to_h, first_wait: first.to_h,
          connections: connections, preparing: preparing
        }
    end

    # One placement is enough, because a sleeping process costs the same on every core.
    def everywhere? = false

    private

    def measure(placement)
      each_of(contenders, placement) do |contestant|
        yield contestant.name
        start([contestant], placement) do |(holder)|
          others = @server.connections
          start([contestant], placement) { |(waiter)| cost(contestant, holder, waiter, others) }
        end
      end
    end

    # The same process waits twice, because the first wait includes preparations for all waits.
    def cost(contestant, holder, waiter, others)
      first = wait(holder, waiter, FIRST)
      second = wait(holder, waiter, @options.waiting)
      Result.new(contestant, first, second, second.connections - others)
    end

    # The holder sends nothing while it holds the lock, so all commands in this time are the
    # waiter's.
    def wait(holder, waiter, seconds)
      relay = Relay.new(holder, waiter, fresh_key)
      commands = connections = nil
      passing = @server.watch do |monitor|
        relay.pass do
          sleep(seconds)
          commands = monitor.commands
          connections = @server.connections - 1 # without the monitor's connection
        end
      end
      relay.finish
      Wait.new(commands, connections, passing.cpu_ns / 1e6)
    end

    def columns(_) = COLUMNS

    def checks(results, _)
      results.select { |result| result.contestant.plock? }.flat_map do |result|
        name, wait = result.contestant.name, result.wait
        [
          Check.new(
            "#{name} at most #{COMMANDS} commands in one wait", wait.commands.size.to_s,
            wait.commands.size <= COMMANDS
          ),
          Check.new(
            "#{name} at most #{CPU_MS} ms of CPU", format("%.2f", wait.cpu_ms),
            wait.cpu_ms <= CPU_MS
          )
        ]
      end
    end
  end
end
