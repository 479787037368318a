# frozen_string_literal: true

require "active_support/fork_tracker"
require "weakref"
require_relative "../aside"
require_relative "../pool"

module Plock
  class Store
    class Database
      # The connections of one store to a database: made as those of a model are, but its own, so that neither the model's pool nor a
      # transaction of whoever calls is in the way.
      #
      # @api private
      class Connections < Pool
        # @param origin [Origin]
        # @param size [Integer] connections at most
        # @param connect_timeout [Float] seconds
        def initialize(origin, size, connect_timeout)
          @origin = origin
          @connect_timeout = connect_timeout
          super(size) { @origin.connection_class.new(connect) { connect } }
          weak = WeakRef.new(self)
          ActiveSupport::ForkTracker.after_fork { Connections.discard_all(weak) }
        end

        # At once, and not when the child comes to use them: a descriptor that lives on in a child keeps a dead parent looking alive.
        #
        # @param weak [WeakRef] to the connections of a store that may be gone
        # @return [void]
        def self.discard_all(weak)
          weak.discard_all
        rescue WeakRef::RefError
          nil
        end

        private

        def connect
          adapter, = Aside.run(@connect_timeout) { @origin.adapter(@connect_timeout) }
          adapter or raise UnavailableError.new("the database was not connected to within #{@connect_timeout} s", code: :timed_out)
        end
      end
    end
  end
end
