# frozen_string_literal: true

require_relative "name"

module Mongo
  module Locking
    # A lock that is held, from {Locking.locks}.
    #
    # @!attribute [r] scope
    #   @return [String]
    # @!attribute [r] key
    #   @return [String] a long key is cut off, unless it is that of a document
    # @!attribute [r] owner
    #   @return [String] host, process and thread
    # @!attribute [r] age
    #   @return [Float, nil] seconds since it was acquired; nil: a process of the gem holds it
    # @!attribute [r] remaining
    #   @return [Float, nil] seconds until it expires if its process has died
    # @!attribute [r] status
    #   @return [Plock::Status] for the store's `break`
    Held = ::Struct.new(:scope, :key, :owner, :age, :remaining, :status) do
      # @api private
      # @return [Held, nil] nil: another kind of lock in the same store
      def self.of(status)
        name = Name.of_document(status.store_key) || Name.of_label(status.label) or return
        owner = status.holders.first.dup.tap { |holder| holder.label = nil } # scope and key, again

        new(
          name.scope, name.key, owner.to_s, status.since && (::Time.now - status.since),
          status.remaining, status
        ).freeze
      end
    end
  end
end
