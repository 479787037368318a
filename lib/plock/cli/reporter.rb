# frozen_string_literal: true

require_relative "../cli"

module Plock
  module CLI
    # The logger of the command's store. It prints the library's warnings in the command's form.
    module Reporter
      def self.warn(message) = CLI.complain(message.delete_prefix("[Plock] "))
    end
  end
end
