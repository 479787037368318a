# frozen_string_literal: true

require_relative "../../clock"

module Plock
  class Store
    # Since when a server could not be reached, as far as the calls of this process know. A call
    # gives up as soon as that has lasted for as long as it endures.
    #
    # @api private
    class Reach
      # The process has no connection to spare: that says nothing about the server. While it is
      # dark, connections may all be waited for.
      OWN_FAULTS = %i[saturated].freeze
      private_constant :OWN_FAULTS

      # @param timeout [Float] seconds
      def initialize(timeout)
        @timeout = timeout
        @answered_at = @dark_since = nil
      end

      # The server did something that it was asked for.
      def answered
        @answered_at = Clock.now
        @dark_since = nil
      end

      # @param error [UnavailableError] how an attempt failed
      # @param called_at [Float] when the call began
      # @return [Boolean] is the call to give up?
      def lost?(error, called_at)
        return false if @dark_since.nil? && OWN_FAULTS.include?(error.code)

        since = (@dark_since ||= @answered_at && @answered_at > called_at ? Clock.now : called_at)
        Clock.now - [since, called_at].max >= @timeout
      end
    end
  end
end
