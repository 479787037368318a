# frozen_string_literal: true

require "active_record/connection_adapters/postgresql_adapter"
require_relative "../aside"
require_relative "connection"

module Plock
  class Store
    class Database
      # @api private
      class Postgresql < Connection
        # What goes away when it is tried again: a deadlock, a conflict between transactions.
        CONFLICTS = %w[40001 40P01 55P03].freeze

        FORBIDDEN = "42501"
        MISSING = "42P01"

        # Seconds that an answer is waited for which nobody wants any more.
        DRAIN_S = 0.05

        # Seconds for asking the server to give up a statement.
        CANCEL_S = 0.5

        def self.failures = [PG::Error]

        # @param adapter [ActiveRecord::ConnectionAdapters::PostgreSQLAdapter]
        def initialize(adapter, &another)
          super
          @names = ({} if adapter.prepared_statements)
          @named = 0
          @raw.set_notice_processor { nil } # what concerns us is an error besides
        end

        # @return [Boolean]
        def in_transaction? = @raw.transaction_status != PG::PQTRANS_IDLE

        # @return [Integer] the process of the server's that was told at the start: a pooler in between makes one up
        def server_id = @raw.backend_pid

        # Sleeps until the server has told something on a channel that was listened to.
        #
        # @return [String, nil] what it told; nil: nothing so far
        def hear(seconds)
          @raw.wait_for_notify(seconds) { |_channel, _pid, payload| return payload }
          nil
        rescue *self.class.failures => e
          raise failure(e)
        end

        # Where the server is in the middle of something, it is told to stop: a statement that waits for another's transaction would do so
        # as long as that takes, and then be carried out.
        def close
          return super unless @busy

          Aside.start do
            cancel
            super
          end
        end

        private

        def begin_sql = "BEGIN ISOLATION LEVEL READ COMMITTED"

        def perform(sql, binds, deadline)
          if @names && binds.any?
            name = @names[sql] || prepare(sql, deadline)
            @busy = true
            @raw.send_query_prepared(name, binds)
          else
            @busy = true
            @raw.send_query_params(sql, binds)
          end
          result = finish(deadline)
          answer(result.values, result.cmd_tuples)
        ensure
          result&.clear
        end

        # No name twice: what became of one that was interrupted is not known.
        def prepare(sql, deadline)
          name = "plock#{@named += 1}"
          @busy = true
          @raw.send_prepare(name, sql)
          finish(deadline).clear
          @names[sql] = name
        end

        # Everything that belongs to the answer, never waiting without an end.
        def finish(deadline)
          last = nil
          loop do
            raise late unless @raw.block(left_until(deadline))

            result = @raw.get_result or break
            last&.clear
            last = result
          end
          last.check
          last
        end

        # Something to read where nothing was asked: the server says good-bye, or is gone.
        def alive?
          @raw.status == PG::CONNECTION_OK && !@raw.socket_io.wait_readable(0)
        rescue *self.class.failures
          false
        end

        # What was asked is most often done in a moment; what is not is given up.
        def recovered?
          drained?(DRAIN_S) || (cancel && drained?(CANCEL_S)) || false
        rescue *self.class.failures, UnavailableError, IOError, SystemCallError
          false
        end

        def drained?(seconds)
          deadline = Clock.now + seconds
          while @raw.block(left_until(deadline))
            result = @raw.get_result or break done = true
            result.clear
          end
          done && (!in_transaction? || !run("ROLLBACK", Clock.now + seconds).nil?)
        end

        def cancel
          Aside.run(CANCEL_S) { @raw.cancel.nil? }&.first || false
        end

        # The server has refused it, and waits for the next one.
        def answered?(error)
          !error.result.nil? && @raw.transaction_status != PG::PQTRANS_ACTIVE && @raw.status == PG::CONNECTION_OK
        end

        def failure(error)
          case state = error.result&.error_field(PG::Result::PG_DIAG_SQLSTATE)
          when *CONFLICTS then again(error)
          when FORBIDDEN then forbidden(error)
          when MISSING then missing_table(error)
          when nil, /\A(?:08|53|57|58|25)/ then unavailable(error)
          else ProtocolError.new("#{words(error)} (#{state})", code: :server_error)
          end
        end
      end
    end
  end
end
