# frozen_string_literal: true

require "plock/store/advisory"

class Locker
  class Advisory
    # A store of advisory locks whose keys are two numbers.
    #
    # @api private
    class Store < Plock::Store::Advisory
      TIMEOUTS = { attempt_timeout: 5.0, release_timeout: 5.0, connect_timeout: 5.0 }.freeze

      # Seconds for which a failing acquire is repeated: practically 0, because the gem does not
      # repeat a failed acquire.
      UNAVAILABLE_S = 0.001

      CONNECTIONS = 1024

      # The statements for keys of two numbers.
      class Locks < PostgresqlLocks
        # The longest wait of one statement, in seconds. A waiter whose connection has died notices
        # this within that time.
        def longest_wait = 600.0

        # @return [String] the two numbers, separated by a space
        def number(key) = key

        private

        def argument = "split_part($1, ' ', 1)::int, split_part($1, ' ', 2)::int"
      end

      # The place of a request whose caller has set `block_spin_wait`. Such a request polls, with
      # that pause between two attempts.
      class Place < Plock::Store::AcquireRequest::Place
        def initialize(request)
          @request = request
        end

        def await(_seconds) = super([@request.lease.pause, @request.left].min)
      end

      private_constant :TIMEOUTS, :UNAVAILABLE_S, :CONNECTIONS, :Locks, :Place

      @lock = Plock::BriefMutex.new
      @stores = {}

      # @return [Store] the store of the model's database
      def self.of(model)
        @lock.hold { @stores[model.connection_db_config] ||= new(model) }
      end

      def initialize(model)
        super(model, scope: :transaction, pool_size: CONNECTIONS,
                     unavailable_timeout: UNAVAILABLE_S, **TIMEOUTS)
      end

      def ask(request, how, deadline)
        return super unless request.lease.pause

        super(request, :once, Plock::Clock.now + attempt_timeout)
      end

      def line_up(request) = request.lease.pause ? Place.new(request) : super

      private

      def locks_of(origin, scope)
        return Locks.new(scope) if origin.connection_class.name.end_with?("Postgresql")

        raise Plock::UnsupportedError, "Locker::Advisory needs PostgreSQL"
      end
    end
  end
end
