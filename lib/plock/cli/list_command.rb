# frozen_string_literal: true

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
      TEXT

      COLUMNS = {
        "STORE KEY" => ->(status) { status.store_key },
        "KIND" => ->(status) { status.kind.to_s.tr("_", "-") },
        "HOLDERS" => ->(status) { status.holders.size },
        "LABEL" => ->(status) { status.label&.inspect },
        "HOST" => ->(status) { status.host && Description.printable(status.host) },
        "PID" => ->(status) { status.pid },
        "SINCE" => ->(status) { status.since&.utc&.strftime("%F %T UTC") },
        "LEFT" => ->(status) { status.remaining && format("%.1f s", status.remaining) },
        "WAITING" => ->(status) { status.waiters.size }
      }.freeze
      private_constant :COLUMNS

      private

      def define(options)
        json_option(options)
      end

      def take(operands)
        raise usage("one pattern at a time (got #{operands.size})") if operands.size > 1

        @pattern = operands.first
      end

      def call
        @json ? print_json : print_table
        ExitStatus::OK
      end

      def print_table
        found = each_match.to_a
        $stdout.puts(Table.lines(COLUMNS, found)) if found.any?
      end

      # Prints each lock on a line of its own as it is found, and all of them as one array.
      def print_json
        separator = "[\n"
        each_match do |status|
          $stdout.print(separator, json(Description.to_h(status)))
          separator = ",\n"
        end
        $stdout.puts(separator == ",\n" ? "\n]" : "[]")
      end

      def each_match
        return enum_for(:each_match) unless block_given?

        named = names
        store.each_lock do |status|
          yield status if @pattern.nil? || named.include?(status.store_key) || match?(status)
        end
      end

      # The store keys of a key with this name, one for each kind of lock.
      def names
        return [] if @pattern.nil? || @pattern.empty?

        Locking::Kind::ALL.map { |kind| store.profile.store_key(@pattern, kind) }
      end

      def match?(status)
        texts =
          status.holders.flat_map { |holder| [holder.label, holder.host] }.push(status.store_key)
        texts.any? { |text| text && File.fnmatch?(@pattern, text.scrub) }
      end
    end
  end
end
