# frozen_string_literal: true

require_relative "name"

module Mongo
  module Locking
    # A held lock, as {Locking.locks} returns it.
    #
    # @!attribute [r] scope
    #   @return [String]
    # @!attribute [r] key
    #   @return [String] the whole key if the lock is a document; in another store, a long key is
    #     truncated
    # @!attribute [r] owner
    #   @return [String] host, process and thread
    # @!attribute [r] age
    #   @return [Float, nil] seconds since the lock was acquired; nil if a process using the gem
    #     holds it
    # @!attribute [r] remaining
    #   @return [Float, nil] seconds until the lock expires if it is not renewed
    # @!attribute [r] status
    #   @return [Plock::Status] the status that {Locking.break} passes to the store
    Held = ::Struct.new(:scope, :key, :owner, :age, :remaining, :status) do
      # @api private
      # @return [Held, nil] nil if the status belongs to another kind of lock
      def self.of(status)
        name = Name.of_document(status.store_key) || Name.of_label(status.label) or return
        # leaves out the label, which repeats scope and key
        owner = status.holders.first.dup.tap { |holder| holder.label = nil }

        new(
          name.scope, name.key, owner.to_s, status.since && (::Time.now - status.since),
          status.remaining, status
        ).freeze
      end
    end
  end
end
