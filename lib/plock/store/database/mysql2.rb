# frozen_string_literal: true

require "active_record/connection_adapters/mysql2_adapter"
require_relative "mysql"

module Plock
  class Store
    class Database
      # @api private
      class Mysql2 < Mysql
        def self.failures = [::Mysql2::Error]

        attr_reader :socket

        def initialize(adapter, &another)
          super
          @server_id = @raw.thread_id
          @socket = IO.for_fd(@raw.socket, autoclose: false)
        end

        private

        def perform(sql, binds, deadline)
          text = fill_places(sql, binds)
          @busy = true
          @raw.query(text, async: true, as: :array, cast: true)
          raise late unless @socket.wait_readable(left_until(deadline))

          result = first_of_results
          result ? answer(result.to_a, result.size) : answer([], @raw.affected_rows, @raw.last_id)
        end

        # Reads all results. The next statement would mistake unread ones for its own.
        def first_of_results
          result = @raw.async_result
          @raw.next_result while @raw.more_results?
          result
        end

        def alive?
          !@raw.closed? && !@socket.wait_readable(0)
        rescue *self.class.failures
          false
        end

        # Waits only briefly, because most statements end within a moment.
        def recovered?
          return false unless @socket.wait_readable(DRAIN_S)

          first_of_results
          true
        rescue *self.class.failures, IOError, SystemCallError
          false
        end
      end
    end
  end
end
