# frozen_string_literal: true

module Plock
  module Locking
    # How a caller shares a key with other holders. The other holders must have the same mode, and
    # must be fewer than the caller's limit.
    #
    # @api private
    class Share
      # The names of the modes.
      NAMES = { "r" => :read, "w" => :write }.freeze

      # The format of {#to_str}.
      FORMAT = /\A(?:[rw]|s[1-9]\d{0,4})\z/.freeze

      # @return [String] `"r"`, `"w"`, or `"s"` for a permit of a semaphore
      attr_reader :mode

      # @return [Integer, nil] nil: any number
      attr_reader :limit

      # @return [String] the share in the form that the engine reads
      attr_reader :to_str

      def initialize(mode, limit)
        @mode = mode
        @limit = limit
        @to_str = (NAMES.key?(mode) ? mode : "#{mode}#{limit}").freeze
        freeze
      end

      READ = new("r", nil)
      WRITE = new("w", 1)

      def self.of(permits) = new("s", permits)

      # @return [Symbol, nil] the name of the mode; nil: a permit of a semaphore
      def name = NAMES[@mode]
    end
  end
end
