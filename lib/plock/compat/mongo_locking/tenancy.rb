# frozen_string_literal: true

require "plock/store/support/lease_state"

module Mongo
  module Locking
    # One lease of a {CollectionStore}. A process of the gem that takes over an expired document
    # leaves our owner in it. So a document is ours as long as it also has the time that we wrote.
    #
    # @api private
    class Tenancy < ::Plock::Store::LeaseState
      # Number of times in `written`, while answers are missing.
      MOST = 64
      private_constant :MOST

      # @return [Array<Time>] the time that was written last, and the times of requests without an
      #   answer, which may have been written
      def written = @written || []

      # Runs the block, which writes this time. If the block raises, the time may have been written.
      #
      # @yieldreturn [Object, nil] nil: not written
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
