# frozen_string_literal: true

require_relative "locking/share"

module Plock
  # The engine's object for a lease. Callers receive a {Lease}.
  #
  # @api private
  class Hold
    # @return [String] in ASCII; after {#leave}, another process can use it to adopt the lease
    def dump
      [*[key, value].map { |text| [text].pack("m0") }, fence, (ttl * 1000).round, *share].join(":")
    end

    # @return [Array(String, String, Integer, Float, String)] key, value, fence, ttl in seconds,
    #   and the {Locking::Share} as a String, or nil
    # @raise [ArgumentError] `dump` is not a result of {#dump}
    def self.read(dump)
      key, value, fence, ttl_ms, share = String.try_convert(dump)&.split(":", 5)
      unless ttl_ms && (share.nil? || Locking::Share::FORMAT.match?(share))
        raise ArgumentError, "not the dump of a lease"
      end

      [
        key.unpack1("m0"), value.unpack1("m0"), Integer(fence, 10), Integer(ttl_ms, 10) / 1000.0,
        share
      ]
    end
  end
end
