# frozen_string_literal: true

require_relative "command"
require_relative "description"
require_relative "locating"

module Plock
  module CLI
    # `plock status`
    class StatusCommand < Command
      include Locating

      NAME = "status"
      USAGE = "[options] KEY"
      DESCRIPTION = <<~TEXT
        Shows the holders and waiters of KEY, which may also be a store key as "plock list"
        shows it.
        Exit status: 0 if KEY is free, 1 if it is held.
      TEXT

      private

      def define(options)
        kind_option(options)
        json_option(options)
      end

      def call
        status = store.status(target)
        $stdout.puts(@json ? json(Description.to_h(status)) : Description.lines(status))
        status.held? ? ExitStatus::HELD : ExitStatus::OK
      end
    end
  end
end
