# frozen_string_literal: true

require_relative "arguments"

module Plock
  module Locking
    # What was asked for in one call, checked.
    #
    # @api private
    class Terms
      # @return [Float] seconds
      attr_reader :ttl, :wait, :at_least
      # @return [Float, nil] seconds
      attr_reader :max_hold
      # @return [Boolean]
      attr_reader :renew
      # @return [#call, :raise, nil]
      attr_reader :on_lost
      # @return [String, nil]
      attr_reader :label
      # @return [Share, nil] nil: the caller wants the key for itself
      attr_reader :share
      # @return [#warn, nil]
      attr_reader :logger

      # @return [Boolean] has anybody been given what was asked for? Before that, `at_least:` does not count.
      attr_accessor :used

      # @param profile [Profile] what counts where a call says nothing
      # @param block [Proc, nil] what is to run with it
      # @param share [Share, nil]
      # @raise [ArgumentError] also for a keyword that is not one of these
      # @raise [UnsupportedError]
      def initialize(profile, block, share = nil, ttl: profile.ttl, wait: profile.wait, renew: false, max_hold: nil, at_least: 0,
                     on_lost: nil, label: nil)
        @renew = Arguments.renew(renew)
        @max_hold = Arguments.max_hold(max_hold, renew)
        @at_least = Arguments.span("at_least:", at_least)
        @ttl = [Arguments.ttl(ttl), @at_least].max
        @wait = Arguments.span("wait:", wait)
        @on_lost = Arguments.on_lost(on_lost, !block.nil?)
        @label = Arguments.label(label)
        @share = share
        @logger = profile.logger
        @used = false
      end

      # @return [Boolean] is somebody to be told when the lease is lost?
      def watch?
        @renew || !@on_lost.nil?
      end

      # @return [Boolean]
      def raises?
        @on_lost == :raise
      end
    end
  end
end
