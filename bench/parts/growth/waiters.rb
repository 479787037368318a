# frozen_string_literal: true

require_relative "section"

module Bench
  class Growth < Part
    # Does a waiter cost more the more others wait for its key?
    class Waiters < Section
      TITLE = "Waiters for one key"
      STEP = "waiters"
      STEPS = [1, 10, 100, 1_000].freeze
      HUGE_STEPS = [10_000].freeze

      PROCESSES = 4 # at most; each has its share of the waiters as threads
      ROUNDS = { 1 => 20, 10 => 5 }.freeze # of a step with few waiters; the others have one
      VISITS = 10

      FIGURES = {
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
              rounds = Array.new(ROUNDS.fetch(n, 1)) { round(n, holder, waiting) }
              rounds.first.keys.to_h { |name| [name, middle(rounds.map { |all| all[name] })] }
            end
          end
        end
      end

      # Microseconds for each waiter.
      def round(count, holder, waiting)
        key = fresh_key
        shares = shares(count, waiting)
        holder.enter(key)
        start = Bench.now
        shares.each { |grower, share| grower.wait(key, share) }
        joined = shares.first.first.queue(key, count) - start
        visits = shares.first.first.visit(key, count, VISITS)
        left = holder.leave
        last = shares.map { |grower, _| grower.drained }.max
        {
          join_us: joined / 1e3 / count, leave_us: middle(visits) / 1e3,
          handoff_us: (last - left) / 1e3 / count
        }
      end

      def shares(count, waiting)
        used = waiting.first(count)
        used.each_with_index.map { |grower, i| [grower, (count + i) / used.size] }
      end

      def middle(values) = values.sort[values.size / 2]
    end
  end
end
