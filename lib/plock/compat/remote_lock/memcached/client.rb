# frozen_string_literal: true

require "plock/store/memcached"

class RemoteLock
  module Memcached
    # One connection to memcached. It writes values marshalled, as the original gem's client does.
    #
    # @api private
    class Client < Plock::Store::Memcached::Client
      # Values of other processes are compared as bytes and never unmarshalled.
      module Marshalled
        def self.dump(value) = Marshal.dump(value)
        def self.load(bytes) = bytes
      end

      # The encodings of owners' names. An owner's name has the encoding of its host's name.
      ENCODINGS = [Encoding::UTF_8, Encoding::US_ASCII, Encoding::BINARY].freeze
      private_constant :ENCODINGS

      # @param bytes [String, nil] the result of {#read}
      # @return [Boolean] whether this owner wrote the value. A recent client may have written the
      #   value without marshalling it, so both forms match.
      def self.same?(bytes, owner)
        return false unless bytes

        bytes = bytes.b
        bytes == owner.b ||
          ENCODINGS.any? { |encoding| bytes == Marshal.dump(owner.dup.force_encoding(encoding)) }
      end

      def initialize(servers, settings, timeout)
        super(servers, settings.merge(raw: false, serializer: Marshalled), timeout)
      end

      def add(key, value, ttl) = !!ask { @dalli.add(key, value, ttl) }

      def read(key) = ask { @dalli.get(key) }
    end
  end
end
