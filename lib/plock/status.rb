# frozen_string_literal: true

module Plock
  # What a store tells of one key at one moment. By the time it is read it may be different.
  #
  # @example
  #   status = Plock.status("invoice:7")
  #   status.held?          # => true
  #   status.host           # => "web-1"
  #   status.remaining      # => 7.3
  #   status.waiters.size   # => 2
  class Status
    # Somebody who waits for the key.
    #
    # @!attribute [r] host
    #   @return [String, nil]
    # @!attribute [r] pid
    #   @return [Integer, nil]
    # @!attribute [r] thread
    #   @return [Integer, nil] the system's number of the thread
    # @!attribute [r] label
    #   @return [String, nil] as given to {Locking#acquire}
    # @!attribute [r] since
    #   @return [Time, nil] when it began to wait
    Waiter = Struct.new(:host, :pid, :thread, :label, :since) do
      # @return [String]
      def to_s
        Status.describe(self)
      end
    end

    # @return [String, Symbol, nil] as the caller named it; nil from {Locking#each_lock}, which sees digests only
    attr_reader :key

    # @return [String] as it stands in the store
    attr_reader :store_key

    # @return [Float, nil] seconds until the store frees it by itself; nil where nobody holds it
    attr_reader :remaining

    # @return [Integer, nil] of the lease that holds it
    attr_reader :fence

    # @return [Time, nil] since when it is held
    attr_reader :since

    # @return [String, nil] the holder's
    attr_reader :host, :label

    # @return [Integer, nil] the holder's
    attr_reader :pid, :thread

    # @return [Array<Waiter>] in the order in which they will be served
    attr_reader :waiters

    # @api private
    # @param facts [Array, nil] as a store's `examine` tells them; nil: nothing is known, so nobody holds it
    def initialize(key, store_key, facts)
      @key = key
      @store_key = store_key
      held, remaining, fence, since, host, pid, thread, label, waiters = facts
      @held = held ? true : false
      if @held
        @remaining, @fence, @host, @pid, @thread, @label = remaining, fence, host, pid, thread, label
        @since = since && Time.at(since)
      end
      @waiters = (waiters || []).map { |*facts, at| Waiter.new(*facts, at && Time.at(at)).freeze }.freeze
      freeze
    end

    # @return [Boolean] also true while the key is kept by `at_least:` after its lease was released
    def held?
      @held
    end

    # @return [String] a sentence without a full stop
    def to_s
      return "free" unless held?

      held = since ? "held since #{since.utc.strftime("%F %T.%3N UTC")}" : "held"
      "#{held} by #{Status.describe(self)}, #{waiters.size} waiting"
    end

    # @return [String]
    def inspect
      "#<#{self.class} #{(key || store_key).inspect} #{self}>"
    end

    # @api private
    def self.describe(who)
      return "somebody unknown" unless who.host || who.pid

      text = +"host #{who.host || "unknown"}"
      text << ", pid #{who.pid}" if who.pid
      text << ", thread #{who.thread}" if who.thread
      text << ", label #{who.label.inspect}" if who.label
      text
    end
  end
end
