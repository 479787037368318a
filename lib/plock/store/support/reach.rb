# frozen_string_literal: true

require_relative "../../clock"

module Plock
  class Store
    # Remembers since when this process has been unable to reach the server. A call gives up when
    # the server has been out of reach for `unavailable_timeout`.
    #
    # @api private
    class Reach
      # The failures that this process causes itself, because all its connections are in use. They
      # do not show that the server is unreachable. But once another failure has shown that, these
      # failures count too, because the outage may be what keeps the connections in use.
      OWN_FAULTS = %i[saturated].freeze
      private_constant :OWN_FAULTS

      # @param timeout [Float] seconds
      def initialize(timeout)
        @timeout = timeout
        @answered_at = @dark_since = nil
      end

      def answered
        @answered_at = Clock.now
        @dark_since = nil
      end

      # @param error [UnavailableError] how an attempt failed
      # @param called_at [Float] when the call began
      def lost?(error, called_at)
        return false if @dark_since.nil? && OWN_FAULTS.include?(error.code)

        since = (@dark_since ||= @answered_at && @answered_at > called_at ? Clock.now : called_at)
        Clock.now - [since, called_at].max >= @timeout
      end
    end
  end
end
