# frozen_string_literal: true

require_relative "../../clock"
require_relative "../../errors"

module Plock
  class Store
    # Remembers since when this process has been unable to reach the server. A call gives up when
    # the server has been out of reach for `unavailable_timeout`.
    #
    # @api private
    class Reach
      # The failures that this process causes itself, because all its connections are in use. They
      # do not show that the server is unreachable. But once another failure of any call has shown
      # that, these failures count too, because the outage may be what keeps the connections in use.
      OWN_FAULTS = %i[saturated].freeze
      private_constant :OWN_FAULTS

      # @param timeout [Float] seconds
      def initialize(timeout)
        @timeout = timeout
        @answered_at = @dark_since = nil
        @silent = false # true from a failed request to the next answer
      end

      # Runs a request of any call, and notes whether the server answers.
      def noting
        yield.tap { answered }
      rescue UnavailableError => e
        failed(e)
        raise
      end

      def answered
        @answered_at = Clock.now
        @dark_since = nil
        @silent = false
      end

      # @param error [UnavailableError] how an attempt failed
      # @param called_at [Float] when the call began
      def lost?(error, called_at)
        failed(error)
        return false unless @silent

        since = (@dark_since ||= @answered_at && @answered_at > called_at ? Clock.now : called_at)
        Clock.now - [since, called_at].max >= @timeout
      end

      private

      def failed(error)
        @silent ||= !OWN_FAULTS.include?(error.code)
      end
    end
  end
end
