# frozen_string_literal: true

module Plock
  # The result of {Locking#once}.
  #
  # @example
  #   result = Plock.once("digest:2024-05-01", within: 86_400) { send_digest }
  #   result.ran?  # => true for this call, false for every other call that day
  #   result.value # => what send_digest returned; nil for every other call
  class Once
    # @return [Object, nil] the block's value; nil if this call did not run the block
    attr_reader :value

    # @api private
    def initialize(ran, value)
      @ran = ran
      @value = value
      freeze
    end

    # @return [Boolean] did this call run the block?
    def ran? = @ran

    # @return [String]
    def inspect = "#<#{self.class} #{@ran ? "ran" : "did not run"}>"
  end
end
