# frozen_string_literal: true

require_relative "command"
require_relative "description"
require_relative "locating"
require_relative "../survey"

module Plock
  module CLI
    # `plock break`
    class BreakCommand < Command
      include Locating

      NAME = "break"
      USAGE = "[options] KEY"
      DESCRIPTION = <<~TEXT
        Takes KEY away from its holder, which learns of the loss but may still be running. Asks
        first. KEY may also be a store key as "plock list" shows it.
        Exit status: 0 if the lock was broken; 1 if KEY was not held or the answer was no.
      TEXT

      TOLD = %i[key store_key kind owner fence holders].freeze
      private_constant :TOLD

      private

      def define(options)
        options.on("-y", "--yes", "do not ask") { @yes = true }
        kind_option(options)
        json_option(options)
      end

      def call
        status = store.status(target)
        broken = status.held? && (@yes || agreed?(status)) && break_seen(status)
        report(status, broken)
        broken ? ExitStatus::OK : ExitStatus::NOT_BROKEN
      end

      def agreed?(status) = confirmed?(Description.lines(status), "Take it away?")

      # Breaks the lock only if it still has the holders that the user saw. The holders may have
      # changed while plock waited for the user's answer.
      def break_seen(status)
        seen = Survey.holders_digest(status)
        outcome, now = Survey.break_seen(store, status.store_key, seen, status.key)
        return true if outcome == :broken

        CLI.complain("the key is now #{Description.printable(now.to_s)}: nothing was done")
        false
      end

      def report(status, broken)
        if @json
          $stdout.puts(json(Description.to_h(status).slice(*TOLD).merge(broken: broken)))
        elsif broken
          $stdout.puts("#{Description.name(status)}: taken away")
        elsif !status.held?
          $stdout.puts("#{Description.name(status)}: free")
        end
      end
    end
  end
end
