# frozen_string_literal: true

module Plock
  module CLI
    # Formats text in columns, like ps(1).
    module Table
      # @param columns [Hash{String => #call}] the names of the columns; for each, a callable that
      #   returns the text of an object's cell, or nil
      # @param optional [Array<String>] columns that are left out if all their cells are empty
      # @return [Array<String>] lines; the first line has the names of the columns
      def self.lines(columns, objects, optional: [])
        columns = columns.reject do |name, show|
          optional.include?(name) && objects.none? { |object| show.call(object) }
        end
        rows =
          objects
            .map { |object| columns.values.map { |show| (show.call(object) || "-").to_s } }
            .unshift(columns.keys)
        widths = rows.transpose.map { |cells| cells.map(&:length).max }
        rows.map do |cells|
          cells.zip(widths).map { |cell, width| cell.ljust(width) }.join("  ").rstrip
        end
      end
    end
  end
end
