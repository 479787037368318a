# frozen_string_literal: true

require "active_support/fork_tracker"
require "weakref"
require_relative "../support/aside"
require_relative "../support/pool"

module Plock
  class Store
    class Database
      # The connections of one store to a database. They are opened as those of a model are, but
      # belong to the store. Neither the model's pool nor the caller's transaction affects them.
      #
      # @api private
      class Connections < Pool
        # @param connect_timeout [Float] seconds
        def initialize(origin, size, connect_timeout)
          @origin = origin
          @connect_timeout = connect_timeout
          super(size) { @origin.connection_class.new(adapter) { adapter } }
          weak = WeakRef.new(self)
          ActiveSupport::ForkTracker.after_fork { Connections.discard_all(weak) }
        end

        # Discards the connections as soon as a child is forked: a descriptor that stays open in
        # the child makes a parent that has died look alive.
        #
        # @param weak [WeakRef] to the connections of a store that may be gone
        def self.discard_all(weak)
          weak.discard_all
        rescue WeakRef::RefError
          nil
        end

        private

        def adapter = @origin.adapter(@connect_timeout)

        # Connects on a thread that goes on when the caller no longer waits: if it were killed in
        # the middle, a connection could stay open.
        def connect(loan, deadline)
          seconds = [@connect_timeout, [deadline - Clock.now, 0.001].max].min
          Aside.run(seconds, lasting: true) { fulfil(loan) } and return

          raise UnavailableError.new(
            "the database was not connected to within #{seconds.round(3)} s",
            code: :timed_out
          )
        end
      end
    end
  end
end
