# frozen_string_literal: true

require_relative "products"
require_relative "../../support/proxy"

module Torture
  module Stores
    # How a worker reaches the store's place (places.rb): the configuration, and the other options
    # of the worker's store.
    Access = Struct.new(:config, :options)

    # The place that the workers share: a server or a SQLite file. Each worker has a relay to the
    # server.
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

      # The address without a relay, which the probes at the end use.
      def direct_address
        Access.new(@place.config_of(user(0), @place.port), { pool_size: 2 })
      end

      def relayed = @relays.keys

      # From now on, the worker receives nothing. If `deaf`, the server still receives what the
      # worker sends.
      def darken(slot, deaf:)
        @relays.fetch(slot).swallow_all(:request) unless deaf
        @relays.fetch(slot).swallow_all(:reply)
      end

      # Lets the worker reach the server again. Closes its connections, because bytes were lost on
      # them.
      def lighten(slot)
        @relays.fetch(slot).disconnect
        @relays.fetch(slot).clear
      end

      # Cuts all connections of a worker.
      def sever(slot) = @relays.fetch(slot).disconnect

      # Has the server cut one connection. Returns the slot of its worker, or nil if there is no
      # connection.
      def cut(_type, roll) = @place.cut(roll)

      def fall_silent = @place.freeze_processes
      def speak = @place.thaw_processes
      def restart = @place.restart

      def connections = @place.left_connections

      # The labels of the calls that hold a key or wait for one.
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
