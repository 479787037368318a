# frozen_string_literal: true

require "etc"
require "securerandom"

class RemoteLock
  module Adapters
    # An adapter tries, asks and releases, each once; {RemoteLock} does the rest. A class of one's
    # own need not descend from this one.
    class Base
      HOST = Etc.uname[:nodename].freeze
      private_constant :HOST

      # @param adapter [Object]
      # @return [Boolean] can it be used as one?
      def self.valid?(adapter)
        adapter.respond_to?(:store) && adapter.respond_to?(:has_key?) &&
          adapter.respond_to?(:delete)
      end

      # @param connection [Object]
      def initialize(connection)
        @connection = connection
      end

      # One try.
      #
      # @param key [String] as it stands in the store
      # @param seconds [Numeric] until the lock frees itself
      # @return [Boolean, nil] is it ours now?
      def store(key, seconds)
        raise NotImplementedError
      end

      # @param key [String]
      # @return [Boolean] is it ours?
      def has_key?(key)
        raise NotImplementedError
      end

      # Releases it, if it is ours.
      #
      # @param key [String]
      # @return [Object]
      def delete(key)
        raise NotImplementedError
      end

      private

      # What stands in the store as the owner.
      def uid
        "#{HOST}-#{Process.pid}-#{thread_id}"
      end

      # A fiber's own.
      def thread_id
        Thread.current[:thread_uid] ||= SecureRandom.hex(4)
      end
    end
  end
end
