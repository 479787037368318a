# frozen_string_literal: true

require_relative "../status"

module Plock
  class Status
    # Makes `pp`, and so irb, show a status as a table. The Rails console loads this file.
    # Elsewhere, load it with `require "plock/status/table"`.
    #
    #     "import:42": held
    #              host   pid   thread  label  since                    fence             left
    #     holder   web-1  4711  4711    night  2026-11-21 20:14:02.120  1763761234567890  7.3 s
    #     waits 1  web-2  812   1377    -      2026-11-21 20:14:05.502  -                 -
    #
    # The table of a read-write lock also has a column for the modes.
    module Table
      COLUMNS = %i[host pid thread label mode since fence remaining].freeze
      TITLES = { remaining: "left" }.freeze
      NOTHING = "-"

      private_constant :COLUMNS, :TITLES, :NOTHING

      # Prints the table, for `pp`.
      #
      # @param printer [PP]
      def pretty_print(printer)
        indentation = " " * printer.indent
        table_lines.each_with_index do |line, number|
          printer.text("\n#{indentation}", 0) unless number.zero?
          printer.text(line)
        end
      end

      private

      def table_lines
        people = table_people
        return [table_title] if people.empty?

        columns = people.values.any?(&:mode) ? COLUMNS : COLUMNS - [:mode]
        rows = people.map { |role, who| [role, *columns.map { |column| table_cell(who, column) }] }
        rows.unshift(["", *columns.map { |column| TITLES.fetch(column, column.to_s) }])
        widths = rows.transpose.map { |cells| cells.map(&:length).max }
        [
          table_title,
          *rows.map do |cells|
            cells.zip(widths).map { |cell, width| cell.ljust(width) }.join("  ").rstrip
          end
        ]
      end

      def table_title
        what = " (#{kind.to_s.tr("_", "-")})" unless kind == :lock
        "#{(key || store_key).inspect}#{what}: " \
          "#{held? ? "held" : "free"}#{" by #{holders.size}" if holders.size > 1}"
      end

      # Returns the holders and waiters, by the text in the first column of their row.
      def table_people
        numbered(holders, "holder", holders.size > 1).merge(numbered(waiters, "waits", true))
      end

      def numbered(people, role, numbers)
        people.each_with_index.to_h { |who, place| [numbers ? "#{role} #{place + 1}" : role, who] }
      end

      # A label may contain anything, so it is escaped.
      def table_cell(who, column)
        value = who[column] if who.members.include?(column)
        case value
        when nil then NOTHING
        when Time then value.strftime("%F %T.%3N")
        when Float then "#{value.round(1)} s"
        when String then value.inspect[1...-1]
        else value.to_s
        end
      end
    end

    include Table
  end
end
