# frozen_string_literal: true

module Plock
  module CLI
    module Doctor
      # The result of one check.
      #
      # @!attribute [r] check
      #   @return [String] the name of the check
      # @!attribute [r] level
      #   @return [Symbol] `:fine`; `:advice`: the configuration could be better; `:danger`: a key
      #     may get two holders, or no key can be acquired; `:unknown`: the check could not run
      # @!attribute [r] message
      #   @return [String]
      # @!attribute [r] remedy
      #   @return [String, nil]
      Finding = Struct.new(:check, :level, :message, :remedy) do
        # @return [Boolean]
        def danger? = level == :danger
      end
    end
  end
end
