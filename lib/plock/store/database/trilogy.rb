# frozen_string_literal: true

require "active_record/connection_adapters/trilogy_adapter"
require_relative "../support/aside"
require_relative "mysql"

module Plock
  class Store
    class Database
      # @api private
      class Trilogy < Mysql
        # A Trilogy client without the gem's guard against use by several threads. The guard lets
        # interrupts in even if the caller has masked them. Only one thread at a time uses this
        # client, so it needs no guard.
        class Client
          def initialize(client)
            @query, @check, @escape, @limit, @more, @next =
              %i[query check escape read_timeout= more_results_exist? next_result].map do |name|
                method = client.method(name)
                method.super_method || method
              end
          end

          def query(text)
            result = @query.call(text)
            @next.call while @more.call
            result
          end

          def check = @check.call

          def escape(text) = @escape.call(text)

          def read_timeout=(seconds)
            @limit.call(seconds)
          end
        end

        private_constant :Client

        def self.failures = [::Trilogy::Error]

        def initialize(adapter, &another)
          super
          @raw = Client.new(@raw)
          @server_id = run("SELECT CONNECTION_ID()", Clock.now + START_S).value
        end

        private

        # Trilogy waits in ways that not every Fiber scheduler supports on every Ruby. So under a
        # scheduler, another thread runs the query.
        def perform(sql, binds, deadline)
          text = fill_places(sql, binds)
          @raw.read_timeout = left_until(deadline)
          @busy = true
          result = Fiber.current_scheduler ? Aside.wait { @raw.query(text) } : @raw.query(text)
          answer(result.rows, result.affected_rows, result.last_insert_id)
        rescue ::Trilogy::TimeoutError => e
          raise answered?(e) ? e : late # a lock timeout that the server reports has this class too
        end

        def alive?
          @raw.check
        rescue *self.class.failures
          false
        end
      end
    end
  end
end
