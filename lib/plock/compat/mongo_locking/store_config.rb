# frozen_string_literal: true

require_relative "name"

module Mongo
  module Locking
    # The store keys of a collection's documents. They contain the plain scope and key, because
    # processes using the gem read these fields of the documents.
    #
    # @api private
    class StoreConfig < ::Plock::Locking::StoreConfig
      # @param key [String, Symbol] as {Name#store_key} writes it; any other text is a key without a
      #   scope
      def store_key(key, kind = ::Plock::Locking::Kind::LOCK)
        "#{::Plock::Locking::Arguments.key(key)}\0:#{::Plock.digest(key.to_s)}#{kind.suffix}"
      end

      # @return [Boolean] true, because a collection has no other documents
      def own?(_store_key) = true
    end
  end
end
