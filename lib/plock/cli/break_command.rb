# frozen_string_literal: true

require_relative "command"
require_relative "description"
require_relative "locating"

module Plock
  module CLI
    # `plock break`
    class BreakCommand < Command
      include Locating

      NAME = "break"
      USAGE = "[options] KEY"
      DESCRIPTION = <<~TEXT
        Takes KEY away from whoever holds it, who learns of it and may be in the middle of something. Asks before. KEY may also be
        a store key as "plock list" shows them.
        Exit status: 0 where it was taken away, 1 where it was not: nobody had it, or the answer was no.
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
        broken =
          status.held? && (@yes || agreed?(status)) && unchanged?(status) && store.break(target)
        report(status, broken)
        broken ? ExitStatus::OK : ExitStatus::NOT_BROKEN
      end

      def agreed?(status)
        unless $stdin.tty?
          raise usage("nobody is there to be asked: the standard input is no terminal. Say --yes")
        end

        $stderr.puts(Description.lines(status))
        $stderr.print("Take it away? [y/N] ")
        answer = $stdin.gets
        $stderr.puts unless answer
        answer.to_s.strip.match?(/\Ay(es)?\z/i)
      end

      # The holder may have changed during the prompt.
      def unchanged?(status)
        return true if @yes

        now = store.status(target)
        return true if now.held? && now.holders.map(&:fence) == status.holders.map(&:fence)

        CLI.complain("meanwhile it is #{Description.printable(now.to_s)}: nothing was done")
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
