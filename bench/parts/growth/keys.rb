# frozen_string_literal: true

require_relative "section"

module Bench
  class Growth < Part
    # Does a lock cost more if more other keys are held?
    class Keys < Section
      TITLE = "Keys held at once"
      STEP = "keys"
      STEPS = [10, 1_000, 10_000, 100_000].freeze
      HUGE_STEPS = [1_000_000].freeze

      PAIRS = 0.5 # seconds

      FIGURES = {
        acquire_us: Figure.new(title: "acquire µs", digits: 1, least: 1),
        pair_us: Figure.new(title: "pair of another key µs", digits: 2, least: 1, plot: "pair"),
        each_lock_ms: Figure.new(title: "each_lock ms", digits: 1, plot: "each-lock"),
        each_lock_us: Figure.new(title: "each_lock µs/key", digits: 1, least: 10),
        server_mib: Figure.new(title: "server MiB", digits: 2),
        server_bytes: Figure.new(title: "server B/key", digits: 0, least: 256),
        client_mib: Figure.new(title: "client MiB", digits: 2),
        client_bytes: Figure.new(title: "client B/key", digits: 0, least: 1024)
      }.freeze

      MIB = 1024.0 * 1024
      # With fewer keys, the memory per key is not shown, because other changes in memory use are
      # larger than the memory of the keys.
      FEW = 1_000

      private

      def measure(placement)
        each_of(@contestants, placement) do |one|
          growers(one, placement, 2) do |(holder, looker)|
            looker.look(PAIRS)
            empty = memory(one)
            measured = rows(one) do |n|
              yield "#{one.name}, #{n} keys"
              step(n, holder.hold(n), looker.look(PAIRS), memory(one) - empty)
            end
            holder.release
            measured
          end
        end
      end

      def step(keys, held, seen, memory)
        raise Failed, "each_lock misses keys: #{seen["keys"]} of #{keys}" if seen["keys"] < keys

        client = held["now"] - held["before"]
        {
          acquire_us: held["key_ns"] / 1e3, pair_us: seen["pair_ns"] / 1e3,
          each_lock_ms: seen["each_lock_ns"] / 1e6, each_lock_us: seen["each_lock_ns"] / 1e3 / keys,
          server_mib: memory / MIB, server_bytes: per_key(memory, keys),
          client_mib: client / MIB, client_bytes: per_key(client, keys)
        }
      end

      def per_key(bytes, keys) = keys < FEW ? nil : bytes.fdiv(keys)

      # Returns the bytes that the server uses, or the size of the local store's file.
      def memory(contestant)
        return @server.memory if contestant.name == "growth-redis"

        File.stat(Stores.path(@server.address)).blocks * 512
      end
    end
  end
end
