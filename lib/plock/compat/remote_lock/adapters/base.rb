# frozen_string_literal: true

require "etc"
require "securerandom"

class RemoteLock
  module Adapters
    # The base of plock's adapters. Each call of an adapter makes one request: a try, a query or a
    # release. An application's own adapter need not inherit from this class.
    class Base
      HOST = Etc.uname[:nodename].freeze
      private_constant :HOST

      # @param adapter [Object]
      # @return [Boolean] whether the object has the methods of an adapter
      def self.valid?(adapter)
        adapter.respond_to?(:store) && adapter.respond_to?(:has_key?) &&
          adapter.respond_to?(:delete)
      end

      # @param connection [Object]
      def initialize(connection)
        @connection = connection
      end

      # Tries once to acquire the lock.
      #
      # @param key [String] the key in the store
      # @param seconds [Numeric] seconds until the lock expires, up to 31_622_400
      # @return [Boolean, nil] whether the lock is ours now
      def store(key, seconds)
        raise NotImplementedError
      end

      # @param key [String]
      # @return [Boolean] whether the lock is ours
      def has_key?(key)
        raise NotImplementedError
      end

      # Releases the lock if it is ours.
      #
      # @param key [String]
      # @return [Object]
      def delete(key)
        raise NotImplementedError
      end

      # @return [String] without the connection, which may have a password
      def inspect = "#<#{self.class}>"

      private

      # The owner's name in the store.
      def uid = uid_of(thread_id)

      def uid_of(name) = "#{HOST}-#{Process.pid}-#{name}"

      # Thread#[] is local to the fiber, so each fiber is a separate owner.
      def thread_id
        Thread.current[:thread_uid] ||= SecureRandom.hex(4)
      end
    end
  end
end
