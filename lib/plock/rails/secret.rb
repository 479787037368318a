# frozen_string_literal: true

require_relative "../cli/secret_command"
require_relative "own_store"

module Plock
  class Railtie
    # `plock secret` for the store that the application has configured.
    #
    # @api private
    class Secret < CLI::SecretCommand
      include OwnStore

      # @param words [Array<String>] `replace`, `yes` and `force`
      # @return [Integer] the exit status
      def self.run(words)
        super(words.map { |word| "--#{word}" })
      end
    end
  end
end
