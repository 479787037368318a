# frozen_string_literal: true

require_relative "../survey/key"
require_relative "command"
require_relative "description"
require_relative "table"

module Plock
  module CLI
    # `plock list`
    class ListCommand < Command
      NAME = "list"
      USAGE = "[options] [PATTERN]"
      DESCRIPTION = <<~TEXT
        Lists the keys that are held. The store knows only digests of keys. PATTERN, with * ?
        and [] as in a shell, therefore matches labels, hosts and store keys. The exact name of
        a key finds that key, too.
        Exit status: 0; 69 if the list is not complete.
      TEXT

      COLUMNS = {
        "STORE KEY" => ->(status) { status.store_key },
        "KIND" => ->(status) { status.kind.to_s.tr("_", "-") },
        "HOLDERS" => ->(status) { status.holders.size },
        "LABEL" => ->(status) { status.label && Description.printable(status.label.inspect) },
        "HOST" => ->(status) { status.host && Description.printable(status.host) },
        "PID" => ->(status) { status.pid },
        "SINCE" => ->(status) { status.since&.utc&.strftime("%F %T UTC") },
        "LEFT" => ->(status) { status.remaining && format("%.1f s", status.remaining) },
        "WAITING" => ->(status) { status.waiters.size },
        "NODE" => ->(status) { status.node }
      }.freeze
      WITHIN_S = 60.0
      private_constant :COLUMNS, :WITHIN_S

      # @return [Array<String>] a table; only keys of a cluster have a node
      def self.table(statuses) = Table.lines(COLUMNS, statuses, optional: ["NODE"])

      private

      def define(options)
        json_option(options)
        options.on("--within SECONDS", "for listing the keys; by default 60") do |text|
          @within = seconds("--within", text)
        end
      end

      def take(operands)
        raise usage("one pattern at a time (got #{operands.size})") if operands.size > 1

        @pattern = operands.first
        @within = Locking::Arguments.span("--within", @within || WITHIN_S)
      end

      def call
        return ExitStatus::OK if @json ? print_json : print_table

        CLI.complain("the list is not complete: there are more keys than could be listed in " \
                     "#{@within} s; a longer --within lists more")
        ExitStatus::UNAVAILABLE
      end

      # @return [Boolean] is the table complete?
      def print_table
        found = []
        complete = each_match { |status| found << status }
        table = found.any? ? self.class.table(found) : nothing
        $stdout.puts(table) if table
        complete
      end

      # The text to print if the table has no rows.
      def nothing = nil

      # Prints each lock on a line of its own as soon as it is found. The lines form one JSON
      # array.
      #
      # @return [Boolean] is the array complete?
      def print_json
        separator = "[\n"
        complete = each_match do |status|
          $stdout.print(separator, json(Description.to_h(status)))
          separator = ",\n"
        end
        $stdout.puts(separator == ",\n" ? "\n]" : "[]")
        complete
      end

      def each_match
        named = names
        store.each_lock_within(@within) do |status|
          yield status if @pattern.nil? || named.include?(status.store_key) || match?(status)
        end
      end

      # The user may have passed the name of a key as the pattern. Returns the store keys of that
      # key, one for each kind of lock.
      def names
        return [] if @pattern.nil? || @pattern.empty?

        Locking::Kind::ALL.map { |kind| store.config.store_key(@pattern, kind) }
      end

      def match?(status)
        texts = status.holders.flat_map { |holder| [holder.label, holder.host] }
        texts.concat(Survey::Key.forms(status.store_key))
        texts.any? { |text| text && File.fnmatch?(@pattern, text.scrub) }
      end
    end
  end
end
