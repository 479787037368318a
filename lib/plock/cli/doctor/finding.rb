# frozen_string_literal: true

module Plock
  module CLI
    module Doctor
      # One thing that was looked at.
      #
      # @!attribute [r] check
      #   @return [String] its name
      # @!attribute [r] level
      #   @return [Symbol] `:fine`; `:advice`: could be better; `:danger`: a key may get two
      #     holders, or none can be acquired; `:unknown`: the check could not run
      # @!attribute [r] message
      #   @return [String]
      # @!attribute [r] remedy
      #   @return [String, nil]
      Finding = Struct.new(:check, :level, :message, :remedy) do
        # @return [Boolean]
        def danger?
          level == :danger
        end
      end
    end
  end
end
