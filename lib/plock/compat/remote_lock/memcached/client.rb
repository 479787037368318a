# frozen_string_literal: true

require "plock/store/memcached"

class RemoteLock
  module Memcached
    # One connection to memcached, for values as the original's client writes them: marshalled.
    #
    # @api private
    class Client < Plock::Store::Memcached::Client
      # What others have written is only compared, never made into an object.
      module Marshalled
        def self.dump(value) = Marshal.dump(value)
        def self.load(bytes) = bytes
      end

      # An owner is text, in whichever encoding its host's name was.
      ENCODINGS = [Encoding::UTF_8, Encoding::US_ASCII, Encoding::BINARY].freeze
      private_constant :ENCODINGS

      # @param bytes [String, nil] as read
      # @return [Boolean] was it written by this owner? Clients of today may have left it as it is.
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
