# frozen_string_literal: true

require "rbconfig"
require_relative "../support/installed"
require_relative "../support/part"

module Bench
  # How long does the installed command take?
  class Start < Part
    NAME = "start"
    TITLE = "The command's start"

    MORE_MS = 40 # the most milliseconds that a command may take in addition to Ruby itself

    COLUMNS = {
      "command" => ->(r) { r.title },
      "p50 ms" => ->(r) { format("%.1f", r.p50) },
      "least ms" => ->(r) { format("%.1f", r.least) },
      "p50, more than Ruby" => ->(r) { format("%+.1f", r.more) }
    }.freeze

    # milliseconds: the sorted times. ruby: the times of Ruby itself, or nil if this row is Ruby
    # itself.
    Row = Struct.new(:title, :milliseconds, :ruby) do
      def p50 = milliseconds[milliseconds.size / 2]
      def least = milliseconds.first
      def more = p50 - (ruby || self).p50
      def to_h = { command: title, p50_ms: p50, least_ms: least, more_ms: more }
    end

    # One placement is enough, because a command needs no server.
    def everywhere? = false

    private

    def measure(placement)
      attempt("plock", placement) do
        yield "installing"
        Installed.open do |gems|
          commands = commands(gems)
          yield "starting"
          rows(commands, times(commands, gems.environment, placement))
        end
      end
    end

    def commands(gems)
      plock = gems.command("plock", from: File.dirname(ROOT))
      store = "local:#{File.join(gems.folder("store"), "locks")}"
      {
        "ruby -e 0" => [RbConfig.ruby, "-e", "0"],
        "command of an empty gem" => [gems.empty_command],
        "plock --version" => [plock, "--version"],
        "plock run KEY -- true" => [plock, "run", "--store", store, "bench", "--", "true"]
      }
    end

    # The commands take turns, so that other load on the machine affects all of them. The first
    # round only warms up.
    def times(commands, environment, placement)
      rounds =
        Array.new(@options.rounds + 1) do
          commands.transform_values { |words| milliseconds(words, environment, placement) }
        end
      commands.keys.to_h { |title| [title, rounds.drop(1).map { |round| round[title] }.sort] }
    end

    def milliseconds(words, environment, placement)
      before = Bench.now
      system(environment, *Pinning.command(placement.client_core, *words), out: File::NULL) or
        raise Failed, "#{words.join(" ")} failed"
      (Bench.now - before) / 1e6
    end

    def rows(commands, times)
      ruby = Row.new(commands.keys.first, times.values.first)
      commands.keys.map { |title| Row.new(title, times[title], ruby) }
    end

    def columns(_) = COLUMNS

    def checks(rows, _)
      row = rows.last
      [
        Check.new(
          "#{row.title} at most #{MORE_MS} ms more than #{row.ruby.title}",
          format("%.1f", row.more), row.more <= MORE_MS
        )
      ]
    end
  end
end
