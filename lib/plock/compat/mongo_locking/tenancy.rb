# frozen_string_literal: true

require "plock/store/support/lease_state"

module Mongo
  module Locking
    # One lease of a {CollectionStore}. A process of the gem that takes a document over when its
    # time is over leaves our owner in it. So a document is ours as long as it also has the time
    # that we have written.
    #
    # @api private
    class Tenancy < ::Plock::Store::LeaseState
      # How many answers may be missing, one after the other, that a request is made again after.
      MOST = 64
      private_constant :MOST

      # @return [Array<Time>] what has been written last, and where an answer is missing, what may
      #   have been
      def written = @written || []

      # Runs the block, which writes this time. Where it raises, that may have been written, or not.
      #
      # @yieldreturn [Object, nil] nil: it has not been written
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
