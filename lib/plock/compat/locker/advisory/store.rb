# frozen_string_literal: true

require "plock/store/advisory"

class Locker
  class Advisory
    # plock's store of advisory locks, for keys that are two numbers.
    #
    # @api private
    class Store < Plock::Store::Advisory
      TIMEOUTS = { attempt_timeout: 5.0, release_timeout: 5.0, connect_timeout: 5.0 }.freeze

      # Seconds. A failure ends a call: the gem of this name does not try again, either.
      UNAVAILABLE_S = 0.001

      CONNECTIONS = 1024

      # The statements for such a key.
      class Locks < PostgresqlLocks
        # Seconds. After that a connection that has died meanwhile is noticed.
        def longest_wait = 600.0

        # @return [String] "space number"
        def number(key) = key

        private

        def argument = "split_part($1, ' ', 1)::int, split_part($1, ' ', 2)::int"
      end

      # What a request waits on when its caller has chosen the pause between two attempts.
      class Place < Plock::Store::AcquireRequest::Place
        def initialize(request)
          @request = request
        end

        def await(_seconds) = super([@request.grant.pause, @request.left].min)
      end

      private_constant :TIMEOUTS, :UNAVAILABLE_S, :CONNECTIONS, :Locks, :Place

      @lock = Mutex.new
      @stores = {}

      # @return [Store] of the model's database
      def self.of(model)
        @lock.synchronize { @stores[model.connection_db_config] ||= new(model) }
      end

      def initialize(model)
        super(model, scope: :transaction, pool_size: CONNECTIONS,
                     unavailable_timeout: UNAVAILABLE_S, **TIMEOUTS)
      end

      def ask(request, how, deadline)
        return super unless request.grant.pause

        super(request, :once, Plock::Clock.now + attempt_timeout)
      end

      def line_up(request) = request.grant.pause ? Place.new(request) : super

      private

      # Seconds. A server that is slow to say that it is too late is no failure.
      def grace = 5.0

      def locks_of(origin, scope)
        return Locks.new(scope) if origin.connection_class.name.end_with?("Postgresql")

        raise Plock::UnsupportedError, "Locker::Advisory needs PostgreSQL"
      end
    end
  end
end
