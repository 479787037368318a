# frozen_string_literal: true

require_relative "../events"
require_relative "arguments"

module Plock
  module Locking
    # The checked options of one call. `USUAL` stands for the store's `ttl:` or `wait:`.
    #
    # @api private
    class AcquireOptions
      # @return [Float] seconds
      attr_reader :ttl, :wait, :at_least
      # @return [Float, nil] seconds; nil: no limit
      attr_reader :max_hold
      # @return [Boolean, Symbol] `:automatic`: plock renews the lease although the caller did not
      #   ask for a renewal, so a block that ends early must not pay for one
      attr_reader :renew
      attr_reader :on_lost, :label
      # @return [Integer, nil] how many replicas must confirm the lease; nil: the store's
      #   `replicas:` decides
      attr_reader :replicas
      # @return [Share, nil] nil: the caller wants the key exclusively
      attr_reader :share
      # @return [Locking, nil] the store of the call; nil: the lease cannot be handed over
      attr_reader :store

      # @return [Boolean] has the caller received the lease? Before that, `at_least:` does not keep
      #   the key taken.
      attr_accessor :used

      # The options of all calls that pass no options other than `ttl:` and `wait:`.
      #
      # @param renewed [Boolean] is the lease renewed while the block runs?
      def self.plain(store, renewed)
        new(store.config, nil, store: store)
          .tap { |options| options.with(renew: false).plain(renewed) }
          .freeze
      end

      # @param config [StoreConfig] the defaults
      # @param unable [Array<Symbol>] the abilities that the store lacks
      def initialize(config, block, share = nil, unable = [], store: nil)
        @config = config
        @unable = unable
        @block = !block.nil?
        @share = share
        @store = store
        @used = false
      end

      # Sets the options from the keywords of the call. If `new` took the keywords, each acquire
      # would allocate two Hashes for them.
      #
      # @raise [ArgumentError] a keyword is unknown, or a value is invalid
      def with(
        ttl: USUAL, wait: USUAL, renew: nil, max_hold: nil, at_least: 0, on_lost: nil, label: nil,
        release: nil, replicas: nil
      )
        usual = USUAL.equal?(ttl)
        @renew = Arguments.renew(renew, automatic: @block && usual, watched: !on_lost.nil?)
        @max_hold = max_hold.nil? ? nil : Arguments.max_hold(max_hold, @renew)
        @at_least = at_least.equal?(0) ? 0.0 : Arguments.span("at_least:", at_least)
        @ttl = [usual ? @config.ttl : Arguments.ttl(ttl), @at_least].max
        @wait = USUAL.equal?(wait) ? @config.wait : Arguments.span("wait:", wait)
        @on_lost = on_lost.nil? ? nil : Arguments.on_lost(on_lost, @block)
        @label = label.nil? ? nil : Arguments.label(label)
        @replicas = replicas.nil? ? nil : Arguments.replicas(replicas, @unable)
        @release = release.nil? ? @config.release : Arguments.release(release, @unable)
        @watch = @renew == true || !on_lost.nil? || (@renew && Events.listening) ? true : false
        self
      end

      # @see AcquireOptions.plain
      def plain(renewed)
        @renew = renewed && :automatic
        @used = true
      end

      def logger = @config.logger

      # @return [Boolean] must a loss or a renewal of the lease be reported?
      def watch? = @watch

      # @return [Boolean] is the release at the end of the block sent without waiting for the
      #   answer?
      def trailing? = @release == :background

      def raises? = @on_lost == :raise
    end
  end
end
