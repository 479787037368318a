# frozen_string_literal: true

require_relative "tables"

module Plock
  class Store
    class Database
      # SQLite has its own functions for the time.
      #
      # @api private
      class SqliteTables < Tables
        private

        # SQLite's clock has a resolution of one millisecond.
        def now = "(CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000)"

        def greater(one, other) = "max(#{one}, #{other})"

        def lesser(one, other) = "min(#{one}, #{other})"
      end
    end
  end
end
