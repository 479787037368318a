# frozen_string_literal: true

require_relative "../../clock"

module Plock
  class Store
    # Remembers since when the calls of this process have not reached the server. A call gives up
    # when that has lasted for `unavailable_timeout`.
    #
    # @api private
    class Reach
      # Failures that say nothing about the server: all connections are in use. But once the server
      # is unreachable, they may be in use because of that.
      OWN_FAULTS = %i[saturated].freeze
      private_constant :OWN_FAULTS

      # @param timeout [Float] seconds
      def initialize(timeout)
        @timeout = timeout
        @answered_at = @dark_since = nil
      end

      # The server has answered a request.
      def answered
        @answered_at = Clock.now
        @dark_since = nil
      end

      # @param error [UnavailableError] how an attempt failed
      # @param called_at [Float] when the call began
      # @return [Boolean] must the call give up?
      def lost?(error, called_at)
        return false if @dark_since.nil? && OWN_FAULTS.include?(error.code)

        since = (@dark_since ||= @answered_at && @answered_at > called_at ? Clock.now : called_at)
        Clock.now - [since, called_at].max >= @timeout
      end
    end
  end
end
