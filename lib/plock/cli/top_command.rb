# frozen_string_literal: true

require_relative "command"
require_relative "table"

module Plock
  module CLI
    # `plock top`
    class TopCommand < Command
      NAME = "top"
      USAGE = "[options]"
      DESCRIPTION = <<~TEXT
        Shows the keys that are held, those with the most waiters first, until q ends it. Needs
        the gem curses. Prints one table and ends if standard input or output is no terminal.

        Keys: arrows, j and k move; Enter shows all holders and waiters; / filters by label,
        host, store key or the name of a key; s sorts by the next column, and r the other way
        round; b breaks a lock, after a confirmation; q ends.
        Exit status: 0 also if INT or TERM ends it.
      TEXT

      INTERVALS = (0.2..3600.0).freeze
      ALL_S = 3600.0 # seconds that one step of the survey may take: long enough for all keys
      DUMB = [nil, "", "dumb"].freeze
      private_constant :INTERVALS, :ALL_S, :DUMB

      COLUMNS = {
        "WAITING" => ->(status, _) { status.waiters.size },
        "OLDEST" => ->(status, words) { words.ago(Survey::Snapshot.first_wait(status)) },
        "HELD FOR" => ->(status, words) { words.ago(status.since) },
        "LEFT" => ->(status, words) { words.short_span(status.remaining) },
        "KIND" => ->(status, _) { status.kind.to_s.tr("_", "-") },
        "LABEL" => ->(status, words) { status.label && words.plain(status.label) },
        "HOLDER" => ->(status, words) { words.holder(status) },
        "STORE KEY" => ->(status, _) { status.store_key },
        "NODE" => ->(status, _) { status.node }
      }.freeze
      private_constant :COLUMNS

      private

      def define(options)
        options.on("--interval SECONDS", "between two looks; by default 2") do |text|
          @interval = interval(text)
        end
        options.on("--read-only", "no lock can be broken") { @read_only = true }
        options.on("--all-namespaces", "show the keys of all namespaces") { @all = true }
      end

      def interval(text)
        number = seconds("--interval", text)
        return number if INTERVALS.cover?(number)

        raise usage("--interval must be from #{INTERVALS.first} to #{INTERVALS.last} seconds " \
                    "(got #{text})")
      end

      def take(operands) = take_none(operands)

      def call
        require_relative "../survey"
        require_relative "../survey/listing"
        require_relative "top/board"
        survey = Survey.new(store, all_namespaces: @all)
        terminal? ? watch(survey) : print_once(survey)
        ExitStatus::OK
      end

      def terminal? = $stdin.tty? && $stdout.tty? && !DUMB.include?(ENV["TERM"])

      def watch(survey)
        require_relative "top/session"
        Top::Session.new(survey, store, @interval || 2.0, read_only: @read_only).run
      rescue LoadError => e
        raise unless e.path == "curses"

        raise Failure.new("plock top needs the gem curses, which is not installed here or not in " \
                          "the Gemfile. Add `gem \"curses\"` to the Gemfile. Without it, " \
                          "`plock top | cat` prints one table", ExitStatus::UNAVAILABLE)
      end

      def print_once(survey)
        snapshot = survey.snapshot(ALL_S) until snapshot&.complete?
        snapshot.unreadable.each { |one| CLI.complain("this key cannot be read: #{one.message}") }
        CLI.complain("there are more keys than this table lists") if snapshot.cut?
        words = Top::Words.new
        columns = COLUMNS.transform_values { |show| ->(status) { show.call(status, words) } }
        found = Survey::Listing.new(snapshot).found
        $stdout.puts(Table.lines(columns, found, optional: ["NODE"]))
      end
    end
  end
end
