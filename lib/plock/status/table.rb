# frozen_string_literal: true

require_relative "../status"

module Plock
  class Status
    # A status as a table, where pp shows it; so irb does. In the console of Rails it is there, elsewhere
    # `require "plock/status/table"` makes it so.
    #
    #     "import:42": held, 7.3 s left
    #              host   pid   thread  label  since                    fence
    #     holder   web-1  4711  4711    night  2026-11-21 20:14:02.120  1763761234567890
    #     waits 1  web-2  812   1377    -      2026-11-21 20:14:05.502  -
    module Table
      COLUMNS = %i[host pid thread label since fence].freeze
      NOTHING = "-"

      private_constant :COLUMNS, :NOTHING

      # @param printer [PP]
      # @return [void]
      def pretty_print(printer)
        indentation = " " * printer.indent
        table_lines.each_with_index do |line, number|
          printer.text("\n#{indentation}", 0) unless number.zero?
          printer.text(line)
        end
      end

      private

      def table_lines
        rows = table_rows
        return [table_title] if rows.empty?

        rows.unshift(["", *COLUMNS.map(&:to_s)])
        widths = rows.transpose.map { |cells| cells.map(&:length).max }
        [table_title, *rows.map { |cells| cells.zip(widths).map { |cell, width| cell.ljust(width) }.join("  ").rstrip }]
      end

      def table_title
        left = ", #{remaining.round(1)} s left" if remaining
        "#{(key || store_key).inspect}: #{held? ? "held" : "free"}#{left}"
      end

      def table_rows
        holders = held? ? [["holder", *table_cells(self)]] : []
        holders + waiters.each_with_index.map { |waiter, place| ["waits #{place + 1}", *table_cells(waiter)] }
      end

      def table_cells(who)
        COLUMNS.map { |column| table_cell(who.respond_to?(column) ? who.public_send(column) : nil) }
      end

      # A label is its author's, and may have anything in it.
      def table_cell(value)
        case value
        when nil then NOTHING
        when Time then value.strftime("%F %T.%3N")
        when String then value.inspect[1...-1]
        else value.to_s
        end
      end
    end

    include Table
  end
end
