# frozen_string_literal: true

require_relative "claim"
require_relative "holdings"

class RemoteLock
  # How plock's own adapters wait: in line, instead of asking again and again.
  #
  # @api private
  module Waiting
    # What an adapter is tried through.
    METHODS = %i[store has_key? delete].freeze

    LABEL_MAX_BYTES = Plock::Locking::Arguments::LABEL_MAX_BYTES
    SPANS = (Plock::Locking::Arguments::TTL_MIN..Plock::Locking::Arguments::SPAN_MAX).freeze
    private_constant :METHODS, :LABEL_MAX_BYTES, :SPANS

    # Where one of the methods is not this gem's any more, or Kernel.sleep not Ruby's, as in a test or a subclass, nobody may go past it.
    #
    # @return [Boolean] does `obtain` come to the same as asking again and again?
    def obtains?
      Kernel.method(:sleep).source_location.nil? && METHODS.all? { |name| method(name).source_location.first.start_with?(__dir__) }
    end

    private

    # @return [Float]
    # @raise [ArgumentError]
    def span(seconds)
      number = Float(seconds)
      return number if SPANS.cover?(number)

      raise ArgumentError, "expiry must be more than 0 seconds, and 366 days at most (got #{seconds.inspect})"
    rescue TypeError
      raise ArgumentError, "expiry must be a number of seconds (got #{seconds.inspect})"
    end

    def patience(seconds) = [seconds.to_f, SPANS.end].min

    # A key of any length has a lease in the store, whose label says what it is for.
    def claim(backing, key, seconds, wait)
      Claim.new(backing, "remote_lock:#{Plock.digest(key)}", ttl: span(seconds), wait: patience(wait), label: label(key))
    end

    def label(key) = key.b.byteslice(0, LABEL_MAX_BYTES).force_encoding(Encoding::UTF_8).scrub("?")

    # What is asked here is asked in this fiber's name.
    def place(backing, key) = [backing, key, uid].freeze
  end
end
