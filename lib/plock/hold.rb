# frozen_string_literal: true

module Plock
  # What the engine has of a lease; {Lease} is what callers get.
  #
  # @api private
  class Hold
    # Leaves the lease to whoever is given the result.
    #
    # @return [String] ASCII
    def dump
      fields = [key, value].map { |text| [text].pack("m0") }
      fields.push(fence, (ttl * 1000).round)
      leave
      fields.join(":")
    end

    # @param dump [String]
    # @return [Array(String, String, Integer, Float)] key, value, fence, ttl in seconds
    # @raise [ArgumentError] not what {#dump} wrote
    def self.read(dump)
      key, value, fence, ttl_ms = String.try_convert(dump)&.split(":", 4)
      raise ArgumentError, "not the dump of a lease" unless ttl_ms

      [key.unpack1("m0"), value.unpack1("m0"), Integer(fence, 10), Integer(ttl_ms, 10) / 1000.0]
    end
  end
end
