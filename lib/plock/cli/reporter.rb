# frozen_string_literal: true

require_relative "../cli"

module Plock
  module CLI
    # The logger of the command's store: what the library warns of, in the command's own form.
    module Reporter
      # @param message [String]
      def self.warn(message)
        CLI.complain(message.delete_prefix("[Plock] "))
      end
    end
  end
end
