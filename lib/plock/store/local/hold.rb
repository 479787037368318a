# frozen_string_literal: true

require_relative "../../hold"

module Plock
  # The object that a {LocalStore} makes for a lease. Callers receive a {Lease}, which uses this
  # object.
  #
  # @api private
  class LocalHold < Hold
    FORMAT = "local"

    # @return [String] in ASCII; another process can adopt it after {#leave}
    def dump
      [FORMAT, fence, *[key, token].map { |text| [text].pack("m0") }].join(":")
    end

    # @return [Array(String, String, Integer)] key, token and fence
    # @raise [ArgumentError] `dump` was not written by {#dump}
    def self.read(dump)
      format, fence, key, token = String.try_convert(dump)&.split(":", 4)
      unless format == FORMAT && token
        raise ArgumentError, "not the dump of a lease of a local store"
      end

      [key.unpack1("m0"), token.unpack1("m0"), Integer(fence, 10)]
    end
  end
end
