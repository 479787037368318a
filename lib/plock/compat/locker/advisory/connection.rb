# frozen_string_literal: true

require "plock/store/connection_watch"

class Locker
  class Advisory
    # The connection that has one lock, and its transaction. They are kept open from one lock to the next.
    #
    # @api private
    class Connection
      # Seconds.
      ANSWER_S = 5.0
      CONNECT_S = 5.0

      # In one go the database waits at most so long, so that a connection that has died meanwhile is noticed.
      WAIT_S = 600.0

      MOST = 1024
      private_constant :ANSWER_S, :CONNECT_S, :WAIT_S, :MOST

      @lock = Mutex.new
      @pools = {}

      # @return [Plock::Store::Database::Connections] of this process
      def self.pool(model)
        @lock.synchronize do
          @pools[model.connection_db_config] ||= begin
            origin = Plock::Store::Database::Origin.new(model)
            unless origin.connection_class.name.end_with?("Postgresql")
              raise Plock::UnsupportedError, "Locker::Advisory needs PostgreSQL"
            end

            Plock::Store::Database::Connections.new(origin, MOST, CONNECT_S)
          end
        end
      end

      def initialize(model)
        @pool = Connection.pool(model)
        @loan = @pool.loan
      end

      # @param patience [Float] seconds
      # @param pause [Float, nil] seconds between two attempts; nil: the database is to wait
      # @return [Boolean] has it been taken?
      def take(space, number, patience, pause)
        @numbers = "#{space}, #{number}"
        @until = Plock::Clock.now + patience
        @pool.fill(@loan, Plock::Clock.now + CONNECT_S)
        run("BEGIN")
        # An open transaction that does nothing is what a lock is.
        run("SET LOCAL idle_in_transaction_session_timeout = 0")
        try? || (patience.positive? && (pause ? spin?(pause) : wait?))
      end

      # Has the block called when the connection is lost.
      #
      # @yieldparam message [String]
      def watch(&lost)
        @lost = lost
        Plock::Store::ConnectionWatch.here.add(self)
      end

      # What the watch waits for.
      def watched_io = connection&.socket

      def notice_end
        return :live if connection&.lives?

        @lost.call("the connection that has the lock was lost")
        :ended
      end

      def watch_no_more
        Plock::Store::ConnectionWatch.here.remove(self) if @lost
      end

      # Gives the lock back, and the connection.
      def close
        Thread.handle_interrupt(Object => :never) do
          watch_no_more
          run("ROLLBACK") if connection&.usable? && connection.in_transaction?
        rescue Plock::Error
          nil # with the connection, the lock has ended
        ensure
          @pool.take_back(@loan)
        end
      end

      private

      def connection = @loan.connection

      def run(sql, *binds, within: ANSWER_S)
        connection.run(sql, *binds, Plock::Clock.now + within)
      end

      def left = @until - Plock::Clock.now

      def try? = run("SELECT pg_try_advisory_xact_lock(#{@numbers})").rows.dig(0, 0)

      def spin?(pause)
        while left.positive?
          sleep([pause, left].min)
          return true if try?
        end
        false
      end

      # A limit of the database's is shorter than ours only where somebody has set one; then it is asked again.
      def wait?
        while (seconds = [left, WAIT_S].min).positive?
          run("SAVEPOINT waiting")
          return true if waited?(seconds)

          run("ROLLBACK TO SAVEPOINT waiting")
        end
        false
      end

      def waited?(seconds)
        run("SELECT set_config('lock_timeout', '#{[(seconds * 1000).ceil, 1].max}', true)")
        run("SELECT pg_advisory_xact_lock(#{@numbers})", within: seconds + ANSWER_S)
        true
      rescue Plock::Store::Database::Connection::Again
        false
      end
    end
  end
end
