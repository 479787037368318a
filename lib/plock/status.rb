# frozen_string_literal: true

require_relative "locking/kind"
require_relative "locking/share"

module Plock
  # The state of one key in the store at one moment. The key may have changed since.
  #
  # @example
  #   status = Plock.status("invoice:7")
  #   status.held?          # => true
  #   status.host           # => "web-1"
  #   status.remaining      # => 7.3
  #   status.waiters.size   # => 2
  # @example
  #   Plock.semaphore("api", permits: 3).status.holders.map(&:label) # => ["import", "export"]
  class Status
    # One holder of the key.
    #
    # @!attribute [r] host
    #   @return [String, nil]
    # @!attribute [r] pid
    #   @return [Integer, nil]
    # @!attribute [r] thread
    #   @return [Integer, nil] the operating system's ID of the thread
    # @!attribute [r] label
    #   @return [String, nil] as given to {Locking#acquire}
    # @!attribute [r] fence
    #   @return [Integer, nil] the fence of the lease
    # @!attribute [r] since
    #   @return [Time, nil] when the holder acquired the key
    # @!attribute [r] remaining
    #   @return [Float, nil] seconds until the lease expires
    # @!attribute [r] mode
    #   @return [Symbol, nil] `:read` or `:write`; nil for locks without modes
    Holder = Struct.new(:host, :pid, :thread, :label, :fence, :since, :remaining, :mode,
                        keyword_init: true) do
      # @return [String]
      def to_s = Status.describe(self)

      # @api private
      # @return [Array] identifies the lease. Two leases that the store cannot tell apart have the
      #   same value.
      def who = [fence, host, pid, thread]
    end

    # One waiter for the key.
    #
    # @!attribute [r] host
    #   @return [String, nil]
    # @!attribute [r] pid
    #   @return [Integer, nil]
    # @!attribute [r] thread
    #   @return [Integer, nil] the operating system's ID of the thread
    # @!attribute [r] label
    #   @return [String, nil] as given to {Locking#acquire}
    # @!attribute [r] since
    #   @return [Time, nil] when the waiter began to wait
    # @!attribute [r] mode
    #   @return [Symbol, nil] `:read` or `:write`; nil for locks without modes
    Waiter = Struct.new(:host, :pid, :thread, :label, :since, :mode, keyword_init: true) do
      # @return [String]
      def to_s = Status.describe(self)
    end

    DEEDS = { read: "held for reading", write: "held for writing" }.freeze
    private_constant :DEEDS

    # @return [String, Symbol, nil] the key as the caller named it; nil from {Locking#each_lock},
    #   which sees only the digests of keys
    attr_reader :key

    # @return [String] the name of the key in the store
    attr_reader :store_key

    # @return [String, nil] host and port of the node of a Redis Cluster that serves the key; nil
    #   for other stores
    attr_reader :node

    # @return [Array<Holder>] in the order in which they acquired the key; a plain lock has at
    #   most one
    attr_reader :holders

    # @return [Array<Waiter>] in the order of the queue
    attr_reader :waiters

    # @return [Float, nil] seconds until the first holder's lease expires; nil if the key is free,
    #   or the store does not report it
    attr_reader :remaining

    # @return [Integer, nil] the fence of the first holder's lease
    attr_reader :fence

    # @return [Time, nil] when the first holder acquired the key
    attr_reader :since

    # @return [String, nil] the host, or the label, of the first holder
    attr_reader :host, :label

    # @return [Integer, nil] the pid, or the thread, of the first holder
    attr_reader :pid, :thread

    # @api private
    # @param people [Array(Array<Holder>, Array<Waiter>), nil] as a store's `examine` returns
    #   them; nil: the store knows nothing about the key, so the key is free
    # @param node [Array(String, String), nil] host and port
    def initialize(key, store_key, people, node = nil)
      @key = key
      @store_key = store_key
      @node = node && node.join(":").freeze
      holders, waiters = people
      @holders = (holders || []).freeze
      @waiters = (waiters || []).freeze
      @host, @pid, @thread, @label, @fence, @since, @remaining = *@holders.first
      freeze
    end

    # @return [Symbol] the kind of lock: `:lock`, `:once`, `:semaphore` or `:read_write`
    def kind = Locking::Kind.of(@store_key).name

    # @return [Boolean] true if the key has a holder, or if `at_least:` keeps the key taken after a
    #   release
    def held? = @holders.any?

    # @return [String] a sentence without a full stop
    def to_s
      place = ", at node #{node}" if node
      return "free#{place}" unless held?

      held = DEEDS.fetch(@holders.first.mode, "held")
      held += " since #{since.utc.strftime("%F %T.%3N UTC")}" if since
      others = ", and by #{@holders.size - 1} more" if @holders.size > 1
      "#{held} by #{@holders.first}#{others}, #{waiters.size} waiting#{place}"
    end

    # @return [String]
    def inspect = "#<#{self.class} #{(key || store_key).inspect} #{self}>"

    class << self
      # @api private
      # @param since [Numeric, nil] seconds since 1970
      # @param mode [String, nil] as {Locking::Share#mode}; nil for a plain lock
      # @param facts [Hash{Symbol => Object}] the other attributes of {Holder}
      def holder(since: nil, mode: nil, **facts) = person(Holder, since, mode, facts)

      # @api private
      # Makes a waiter from the same arguments as {.holder}.
      def waiter(since: nil, mode: nil, **facts) = person(Waiter, since, mode, facts)

      private

      def person(kind, since, mode, facts)
        kind.new(since: since && Time.at(since), mode: Locking::Share::NAMES[mode], **facts).freeze
      end
    end

    # @api private
    def self.describe(who)
      return "an unknown process" unless who.host || who.pid

      text = +"host #{who.host || "unknown"}"
      text << ", pid #{who.pid}" if who.pid
      text << ", thread #{who.thread}" if who.thread
      text << ", label #{who.label.inspect}" if who.label
      text
    end
  end
end
