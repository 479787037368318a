# frozen_string_literal: true

require_relative "products"
require_relative "../../support/proxy"

module Torture
  module Stores
    # How a worker reaches the place, and the other options of its store.
    Access = Struct.new(:config, :options)

    # The place that the workers share, with a relay for each of them.
    class Arena
      def initialize(course, kind)
        users = course.workers.times.map { |slot| user(slot) }
        @course = course
        @kind = kind
        @place = kind.place.new(users)
        kind.prepare(@place)
        @relays = relays(users.size)
      end

      # The address of the place for the worker of this slot.
      def address(slot)
        pool = @kind.pool(@course.pool(slot))
        Access.new(@place.config_of(user(slot), @relays[slot]&.port), { pool_size: pool })
      end

      # The address without a relay, for the probes at the end.
      def direct_address
        Access.new(@place.config_of(user(0), @place.port), { pool_size: 2 })
      end

      def relayed = @relays.keys

      # From now on the worker receives nothing; with deaf, its own bytes still arrive.
      def darken(slot, deaf:)
        @relays.fetch(slot).swallow_all(:request) unless deaf
        @relays.fetch(slot).swallow_all(:reply)
      end

      # Connections that lost bytes cannot go on: they end as the network would end them.
      def lighten(slot)
        @relays.fetch(slot).disconnect
        @relays.fetch(slot).clear
      end

      # All connections of a worker.
      def sever(slot) = @relays.fetch(slot).disconnect

      # The server cuts one connection. Returns the slot of its worker; nil: there is none.
      def cut(_type, roll) = @place.cut(roll)

      def fall_silent = @place.freeze_processes
      def speak = @place.thaw_processes
      def restart = @place.restart

      def connections = @place.left_connections

      # The labels of the calls that hold or wait for something.
      def labels = @place.records.filter_map { |record| record[LABEL, 1] }
      LABEL = / (t\d+x\d+x\d+) /

      def ghosts = @place.ghosts

      def stop
        @relays&.each_value(&:close)
        @place&.stop
      end

      private

      def user(slot) = "w#{slot}"

      def relays(count)
        return {} unless @place.port

        count.times.to_h { |slot| [slot, Support::Proxy.new(["127.0.0.1", @place.port])] }
      end
    end
  end
end
