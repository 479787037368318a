# frozen_string_literal: true

require_relative "../cli"

module Plock
  module CLI
    # The text of `plock help`.
    module Help
      EXIT_STATUSES = <<~TEXT
        Exit status:
          64      the arguments are invalid
          69      the store cannot be used
          71      the system refuses a process, a thread or a file that the command needs
          75      another holder kept the key until --wait ended
          76      the lease was lost while the command ran
          others  see "plock help COMMAND"
      TEXT

      def self.text
        commands = COMMANDS.map { |name, summary| "  #{name.ljust(8)}#{summary}" }
        <<~TEXT
          Usage: plock COMMAND [options] ...

          One holder at a time, across processes and machines.

          Commands:
          #{commands.join("\n")}

          See "plock help COMMAND" or "plock COMMAND --help" for one command, and
          "plock --version" for the version.

          Environment:
            PLOCK_URL        the store, such as redis://localhost:6379; --store overrides it
            PLOCK_NAMESPACE  the namespace of the application; --namespace overrides it
            PLOCK_SECRET     the secret that keys are hashed with; the same in all processes
            PLOCK_ENV        the section of config/plock.yml; else RAILS_ENV, RACK_ENV or APP_ENV
            PLOCK_LOG        debug, info, warn or error: a line for each outcome of a lock
            NO_COLOR         no colours
          config/plock.yml, in the working directory or above it, sets the rest. Without any of
          them the store is local:, which excludes the processes of this host.

          #{EXIT_STATUSES}
        TEXT
      end
    end
  end
end
