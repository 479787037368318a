# frozen_string_literal: true

require_relative "../cli"

module Plock
  module CLI
    # What `plock help` says.
    module Help
      EXIT_STATUSES = <<~TEXT
        Exit status:
          64      the call cannot be right
          69      the store cannot be used
          71      the system refuses what the command needs, such as another process or file
          75      somebody else had the key until patience ended
          76      the lease was lost while the command ran
          others  "plock help COMMAND" says
      TEXT

      # @return [String]
      def self.text
        commands = COMMANDS.map { |name, (_, _, summary)| "  #{name.ljust(8)}#{summary}" }
        <<~TEXT
          Usage: plock COMMAND [options] ...

          One holder at a time, across processes and machines.

          Commands:
          #{commands.join("\n")}

          "plock help COMMAND" or "plock COMMAND --help" says more. "plock --version" says which plock this is.

          Environment:
            PLOCK_URL        the store, where --store does not name one, as in redis://localhost:6379
            PLOCK_NAMESPACE  the application whose keys are meant, where --namespace does not name it
            PLOCK_SECRET     what keys are hashed with: the same for all processes that exclude one another
            PLOCK_ENV        which section of config/plock.yml counts; else RAILS_ENV, RACK_ENV or APP_ENV
            NO_COLOR         no colours
          What neither an option nor a variable says, config/plock.yml says, in the working directory or above it. Without any of
          them the store is local:, which excludes the processes of this host.

          #{EXIT_STATUSES}
        TEXT
      end
    end
  end
end
