# frozen_string_literal: true

require "zlib"
require "plock/store/advisory"

class Locker
  # Advisory locks of PostgreSQL. The two numbers that identify a lock are the same as in the gem.
  # Each lock has its own connection and its own transaction, and ends with them. Waiters sleep in
  # the database, which serves them in order.
  #
  # @example
  #   # true if the block has run, false if another caller held the lock for 60 s
  #   Locker::Advisory.run("report", blocking: true, block_timeout: 60) { report }
  class Advisory
    # Raised in the holder's block when the connection that holds the lock is lost. Another caller
    # may hold the lock from then on.
    class LockConnectionLost < StandardError; end

    # The greatest number that a lock can have. PostgreSQL uses signed 32-bit integers.
    MAX_LOCK = 2_147_483_647

    # The smallest number that a lock can have.
    MIN_LOCK = -2_147_483_648

    OPTIONS = %i[lockspace blocking block_timeout block_spin_wait].freeze
    NUMBERS = 2**32
    private_constant :OPTIONS, :NUMBERS

    # @return [String]
    attr_reader :key
    # @return [Integer] the number computed from the key
    attr_reader :crc
    # @return [Integer] the lock's other number
    attr_reader :lockspace
    # @return [Boolean]
    attr_reader :blocking
    # @return [Boolean]
    attr_reader :locked

    # @param key [String]
    # @param options [Hash{Symbol => Object}] as for {#initialize}
    # @yield with the lock
    # @return (see #run)
    # @raise (see #run)
    def self.run(key, options = {}, &block) = new(key, options).run(&block)

    # @param key [String]
    # @param options [Hash{Symbol => Object}]
    # @option options [Integer] :lockspace (1) from MIN_LOCK to MAX_LOCK
    # @option options [Boolean] :blocking (false) whether to wait for the lock
    # @option options [Numeric, nil] :block_timeout (nil) longest wait in seconds; nil sets no
    #   limit
    # @option options [Numeric, nil] :block_spin_wait (nil) seconds between two tries; nil to wait
    #   in the database's queue. The gem polls every 0.005 s.
    # @raise [ArgumentError] an unknown option, a key that is not a String, or an invalid
    #   lockspace
    def initialize(key, options = {})
      unknown = options.keys - OPTIONS
      raise ArgumentError, "unknown option: #{unknown.first.inspect}" if unknown.any?
      raise ArgumentError, "key must be a string" unless key.is_a?(String)

      @key = key
      @crc = number(key)
      @lockspace = check_lockspace(options[:lockspace] || 1)
      @blocking = !!options[:blocking]
      @block_timeout = options[:block_timeout]&.to_f
      @block_spin_wait = options[:block_spin_wait]&.to_f
      @locked = false
    end

    # Runs the block with the lock. The caller's own transaction is not affected.
    #
    # @yield with the lock
    # @return [Boolean, nil] whether the block has run; nil if it raised ActiveRecord::Rollback. As
    #   in the gem, this exception is not passed on, because the lock has its own transaction.
    # @raise [LockConnectionLost] in the block, as soon as the connection is lost; after the block
    #   under a Fiber scheduler
    # @raise [Plock::Error] the database does not answer, or is not PostgreSQL
    def run
      raise ArgumentError, "Locker::Advisory#run needs a block" unless block_given?

      store = Store.of(ActiveRecord::Base)
      Holding.new(store, "#{lockspace} #{crc}", @block_spin_wait).around(patience) do
        @locked = true
        yield
      end
    rescue ActiveRecord::Rollback
      nil
    ensure
      @locked = false
    end

    private

    # @return [Float] seconds; Infinity sets no limit
    def patience
      return 0.0 unless blocking

      @block_timeout || Float::INFINITY
    end

    # Converts the unsigned checksum to a signed number, as PostgreSQL requires.
    def number(key)
      crc = Zlib.crc32(key)
      crc > MAX_LOCK ? crc - NUMBERS : crc
    end

    def check_lockspace(number)
      return number if number.is_a?(Integer) && number.between?(MIN_LOCK, MAX_LOCK)

      raise ArgumentError,
            "The :lockspace option must be an integer between #{MIN_LOCK} and #{MAX_LOCK}"
    end
  end
end

require_relative "advisory/holding"
require_relative "advisory/store"
