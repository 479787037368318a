# frozen_string_literal: true

require "active_support/fork_tracker"
require "weakref"
require_relative "../support/aside"
require_relative "../support/pool"

module Plock
  class Store
    class Database
      # The connections of one store to a database. They are opened like a model's connections, but
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

        # Discards the parent's connections as soon as a child is forked. If a descriptor stayed
        # open in the child, a parent that has died would still look alive to the server.
        #
        # @param weak [WeakRef] because the store may have been garbage-collected
        def self.discard_all(weak)
          weak.discard_all
        rescue WeakRef::RefError
          nil
        end

        private

        def adapter = @origin.adapter(@connect_timeout)

        # Connects on a separate thread, which continues even if the caller no longer waits. If
        # the thread were killed while it connects, the connection could stay open.
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
