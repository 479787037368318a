# frozen_string_literal: true

require "active_record"
require "active_support/notifications"
require_relative "../../clock"
require_relative "../../errors"

module Plock
  class Store
    class Database
      # One connection that only this store uses: made as Active Record makes it, and then spoken to directly, so that every answer is
      # waited for until a deadline, and nothing that Active Record does with its own connections (transactions, query cache, roles,
      # pinning) has a part in it. Statements are told to `sql.active_record` all the same.
      #
      # In statements `$1`, `$2` … stand for what is bound.
      #
      # @api private
      class Connection
        # What a statement came to: its rows; how many rows it met; on MySQL what LAST_INSERT_ID was given.
        Answer = Struct.new(:rows, :count, :id)

        EVENT = "sql.active_record"

        # Why a statement failed that would succeed if it were sent again.
        class Again < UnavailableError; end

        # @param adapter [ActiveRecord::ConnectionAdapters::AbstractAdapter] connected
        # @yieldreturn [ActiveRecord::ConnectionAdapters::AbstractAdapter] another one to the same database
        def initialize(adapter, &another)
          @adapter = adapter
          @another = another
          @raw = adapter.raw_connection
          @busy = false # from the moment that something is sent to the end of the answer
          @spoilt = false
        end

        # @param deadline [Float] on {Clock}
        # @return [Answer]
        # @raise [Error]
        def run(sql, *binds, deadline)
          telling(sql) { perform(sql, binds, deadline) }
        rescue *self.class.failures => e
          @busy = false if answered?(e)
          raise failure(e)
        end

        # Runs the block between begin and commit. Whatever it raises rolls back, and with `if_true:` an answer that is false, too.
        #
        # @return [Object] the block's value
        def transaction(deadline, if_true: false)
          run(begin_sql, deadline)
          value = yield
          run(value || !if_true ? "COMMIT" : "ROLLBACK", deadline)
          done = true
          value
        ensure
          roll_back unless done || @busy
        end

        # @return [Boolean] can it be used again? In the middle of something it can where that comes to an end soon.
        def usable?
          return false if @spoilt

          @busy = !recovered? if @busy
          !@busy && alive?
        end

        # It is not to be used again: something of it is not as it should be.
        #
        # @return [void]
        def spoil
          @spoilt = true
        end

        # @return [void]
        def close
          @adapter.disconnect!
        rescue *self.class.failures, SystemCallError, IOError
          nil # it is gone
        end

        # Forgets it without a word to the server: it is a parent's.
        #
        # @return [void]
        def discard
          @adapter.discard!
        end

        ROLLBACK_S = 0.5
        private_constant :ROLLBACK_S

        private

        def begin_sql = "BEGIN"

        def roll_back
          return unless in_transaction?

          run("ROLLBACK", Clock.now + ROLLBACK_S)
        rescue Error
          @busy = true # in a state that nobody knows
        end

        def in_transaction? = true

        # Brings to an end what the server is doing, and was not waited for.
        #
        # @return [Boolean]
        def recovered? = false

        def telling(sql)
          return yield unless ActiveSupport::Notifications.notifier.listening?(EVENT)

          ActiveSupport::Notifications.instrument(EVENT, sql: sql, name: "Plock", binds: [], type_casted_binds: [],
                                                         connection: @adapter) { yield }
        end

        # The server has said everything.
        def answer(rows, count, id = nil)
          @busy = false
          Answer.new(rows, count, id)
        end

        def left_until(deadline)
          [deadline - Clock.now, 0.001].max
        end

        # What is not answered in time is not waited for any longer.
        def late
          spoil
          UnavailableError.new("the database has not answered in time", code: :timed_out)
        end

        # The first line: what follows may quote what was bound.
        def words(error)
          "#{error.class}: #{error.message.lines.first&.strip}"
        end

        def unavailable(error, code = :io) = UnavailableError.new(words(error), code: code)

        def again(error) = Again.new(words(error), code: :busy)

        def forbidden(error) = PermissionError.new(words(error), code: :permission)

        def missing_table(error)
          ConfigurationError.new("#{words(error)} (run `rails generate plock:database` and the migration)", code: :bad_config)
        end
      end
    end
  end
end
