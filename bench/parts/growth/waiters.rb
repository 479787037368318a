# frozen_string_literal: true

require_relative "section"

module Bench
  class Growth < Part
    # Does a waiter cost more if more others wait for its key?
    class Waiters < Section
      TITLE = "Waiters for one key"
      STEP = "waiters"
      STEPS = [1, 10, 100, 1_000].freeze
      HUGE_STEPS = [10_000].freeze

      PROCESSES = 4 # at most; the waiters are threads, divided evenly among these processes
      # number of waiters => rounds; a step with more waiters has one round
      ROUNDS = { 1 => 20, 10 => 5 }.freeze
      VISITS = 10   # how often one more thread joins the waiters and leaves
      IDLE = 1.0 # seconds in which all waiters wait

      FIGURES = {
        idle_percent: Figure.new(title: "CPU % of waiting", digits: 2, plot: "waiting"),
        idle_us: Figure.new(title: "CPU µs/s and waiter", digits: 1, least: 20),
        join_us: Figure.new(title: "join µs", digits: 1, least: 50, plot: "join"),
        leave_us: Figure.new(title: "leave µs", digits: 1, least: 50, plot: "leave"),
        handoff_us: Figure.new(title: "hand-off µs", digits: 1, least: 50, plot: "hand-off")
      }.freeze

      private

      def measure(placement)
        each_of(@contestants, placement) do |one|
          growers(one, placement, PROCESSES + 1) do |(holder, *waiting)|
            rows(one) do |n|
              yield "#{one.name}, #{n} waiters"
              rounds = Array.new(ROUNDS.fetch(n, 1)) { |i| round(n, holder, waiting, i.zero?) }
              figures.keys.to_h { |name| [name, middle(rounds.filter_map { |all| all[name] })] }
            end
          end
        end
      end

      # Returns the FIGURES of one round. idles: whether to include the figures of the idle
      # waiters.
      def round(count, holder, waiting, idles)
        key = fresh_key
        shares = shares(count, waiting)
        holder.enter(key)
        start = Bench.now
        shares.each { |grower, share| grower.wait(key, share) }
        joined = shares.first.first.queue(key, count) - start
        idle = idle(shares.first, idles)
        visits = shares.first.first.visit(key, count, VISITS)
        left = holder.leave
        last = shares.map { |grower, _| grower.drained }.max
        {
          **idle, join_us: joined / 1e3 / count, leave_us: middle(visits) / 1e3,
          handoff_us: (last - left) / 1e3 / count
        }
      end

      # Measures the CPU time of the process with the most waiters while all of them wait.
      def idle((grower, share), idles)
        return {} unless idles

        cpu = grower.idle(IDLE) / IDLE
        { idle_percent: cpu / 1e7, idle_us: cpu / 1e3 / share }
      end

      def shares(count, waiting)
        used = waiting.first(count)
        used.each_with_index.map { |grower, i| [grower, (count + used.size - 1 - i) / used.size] }
      end

      def middle(values) = values.sort[values.size / 2]
    end
  end
end
