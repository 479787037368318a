# frozen_string_literal: true

require_relative "../cli/list_command"
require_relative "own_store"

module Plock
  class Railtie
    # `plock list` for the store that the application has configured.
    #
    # @api private
    class Locks < CLI::ListCommand
      include OwnStore

      private

      def nothing = "no key is held"
    end
  end
end
