# frozen_string_literal: true

require_relative "name"

module Mongo
  module Locking
    # How the documents of a collection are named: by scope and key as they are, for processes of
    # the gem read them.
    #
    # @api private
    class StoreConfig < ::Plock::Locking::StoreConfig
      # @param key [String, Symbol] as {Name#store_key} writes it; any other is a key without a
      #   scope
      def store_key(key, kind = ::Plock::Locking::Kind::LOCK)
        "#{::Plock::Locking::Arguments.key(key)}\0:#{::Plock.digest(key.to_s)}#{kind.suffix}"
      end

      # @return [Boolean] a collection has nothing else
      def own?(_store_key)
        true
      end
    end
  end
end
