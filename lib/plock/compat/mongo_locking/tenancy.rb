# frozen_string_literal: true

require "plock/store/support/lease_state"

module Mongo
  module Locking
    # One lease of a {CollectionStore}. When a process that runs the original gem takes over an
    # expired document, it leaves the document's `owner` as it was. So a document is ours only if
    # its `expire_at` was also written by this process.
    #
    # @api private
    class Tenancy < ::Plock::Store::LeaseState
      # The most expiry times that {#written} can contain.
      MOST = 64
      private_constant :MOST

      # @return [Array<Time>] the expiry times that the document may have: the last one that was
      #   confirmed, and those of later requests that were not answered
      def written = @written || []

      # Runs the block, which writes this expiry time to the document. If the block raises, the
      # document may have this time or an earlier one.
      #
      # @yieldreturn [Object, nil] nil if the document was not written
      # @return [Object, nil] the block's value
      def writing(time)
        before = written
        @written = [*before, time].last(MOST)
        answer = yield
        @written = answer ? [time] : before
        answer
      end
    end
  end
end
