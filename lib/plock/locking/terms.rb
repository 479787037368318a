# frozen_string_literal: true

require_relative "arguments"

module Plock
  module Locking
    # What was asked for, checked: the terms of one lease.
    #
    # @api private
    class Terms
      # @return [String, Symbol] as the caller named it
      attr_reader :key
      # @return [Float] seconds
      attr_reader :ttl, :at_least
      # @return [Float, nil] seconds
      attr_reader :max_hold
      # @return [Boolean]
      attr_reader :renew
      # @return [#call, :raise, nil]
      attr_reader :on_lost
      # @return [String, nil]
      attr_reader :label
      # @return [#warn, nil]
      attr_reader :logger

      def initialize(key, ttl:, renew:, max_hold:, at_least:, on_lost:, label:, block_given:, logger:)
        @renew = Arguments.renew(renew)
        @max_hold = Arguments.max_hold(max_hold, renew)
        @at_least = Arguments.span("at_least:", at_least)
        @ttl = [Arguments.ttl(ttl), @at_least].max
        @on_lost = Arguments.on_lost(on_lost, block_given)
        @label = Arguments.label(label)
        @key = key.frozen? ? key : key.dup.freeze
        @logger = logger
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
