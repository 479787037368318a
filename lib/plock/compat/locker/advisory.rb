# frozen_string_literal: true

require "zlib"
require "plock/store/advisory"

class Locker
  # PostgreSQL's advisory locks with two numbers, as the gem of this name takes them: the lock ends
  # with a transaction of its own, on a connection that nobody else uses. Who waits is served by the
  # database, in its order, and needs no CPU for it.
  #
  # @example
  #   Locker::Advisory.run("report", blocking: true, block_timeout: 60) { report } # => true, or false where it took longer
  class Advisory
    # Raised in the holder's block when the connection that has the lock is lost: somebody else may
    # have it from then on.
    class LockConnectionLost < StandardError; end

    # What the database takes for a number.
    MAX_LOCK = 2_147_483_647
    MIN_LOCK = -2_147_483_648

    OPTIONS = %i[lockspace blocking block_timeout block_spin_wait].freeze
    NUMBERS = 2**32
    private_constant :OPTIONS, :NUMBERS

    # @return [String]
    attr_reader :key
    # @return [Integer] the key's number
    attr_reader :crc
    # @return [Integer] the other number
    attr_reader :lockspace
    # @return [Boolean]
    attr_reader :blocking
    # @return [Boolean]
    attr_reader :locked

    # @param key [String]
    # @param options [Hash{Symbol => Object}] as for {#initialize}
    # @yield with the lock
    # @return [Boolean] has the block run?
    # @raise (see #run)
    def self.run(key, options = {}, &block)
      new(key, options).run(&block)
    end

    # @param key [String]
    # @param options [Hash{Symbol => Object}] `:lockspace` (1): an Integer of 32 bits; `:blocking`
    #   (false): wait for it; `:block_timeout` (nil): seconds at most; `:block_spin_wait` (nil): ask
    #   again after so many seconds, as the gem of this name does after 0.005, instead of waiting in
    #   the database's line
    # @raise [ArgumentError]
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

    # Runs the block with the lock.
    #
    # @yield with the lock
    # @return [Boolean] has the block run?
    # @raise [LockConnectionLost] in the block, as soon as the connection is lost. Under a Fiber
    #   scheduler, after it.
    # @raise [Plock::Error] the database could not be asked, or is another one than PostgreSQL
    def run
      raise ArgumentError, "Locker::Advisory#run needs a block" unless block_given?

      store = Store.of(ActiveRecord::Base)
      Holding.new(store, "#{lockspace} #{crc}", @block_spin_wait).around(patience) do
        @locked = true
        yield
      end
    ensure
      @locked = false
    end

    private

    # @return [Float] seconds; Infinity: without end
    def patience
      return 0.0 unless blocking

      @block_timeout || Float::INFINITY
    end

    # With a sign, as the database has it.
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
