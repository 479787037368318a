# frozen_string_literal: true

require_relative "in_ruby"
require_relative "lines"

module Plock
  class Store
    # For servers that have no wait queue, and send no notifications. Each process serves its own
    # waiters in order, and polls with growing pauses for the first of them. A key has one holder.
    # In addition to what {InRuby} requires, such a store has
    #
    # - `add(lease, ttl, deadline)`, one attempt, which returns the fence, or nil;
    # - `undo(lease, within)`, which deletes the key if the token holds it, and returns whether the
    #   store answered;
    # - `holders(key)`, the holders for {Status}, and `ONE_HOLDER`, which says why a key cannot be
    #   shared.
    #
    # @api private
    module Looking
      include InRuby

      # Seconds after which no earlier request can arrive any more, unless the store was away.
      AFTERMATH_S = 1.0
      private_constant :AFTERMATH_S

      # Callers of this process that already wait come first.
      def ask(request, how, deadline)
        return if how == :once && @lines.anybody?(request.key)

        asked_at = Clock.now
        fence = add(request.lease, request.ttl, deadline)
        AcquireRequest::Answer.new(fence, asked_at) if fence
      end

      def line_up(request) = @lines.line_up(request)

      # Takes back what may have been granted: now, and again after AFTERMATH_S, because the
      # request may arrive later than the first attempt. While the store does not answer, the
      # scheduler repeats the second attempt until the lease would have expired. After that outage
      # it looks twice more, since the operating system repeats what a closed connection has sent,
      # with pauses that double. If the first attempt fails within the caller's time, the scheduler
      # repeats it at once.
      #
      # @param within [Float, nil] seconds that the caller has; nil: `attempt_timeout`
      def take_back(lease, within = nil, **)
        key_and_token = stand_in_for(lease)
        undo_again(key_and_token, Clock.now) # first: the rest may be interrupted
        return if undo(lease, within || attempt_timeout) || within.nil?

        @scheduler.call_later do
          undo(key_and_token, attempt_timeout)
          nil
        end
      end

      def tend(lease)
        @watched[lease.token] = lease
        super
      end

      def forget(lease)
        @watched.delete(lease.token)
        super
      end

      # @api private
      def examine(key, _shared, _budget = nil)
        holders = holders(key)
        waiters = @lines.waiters(key)
        [holders, waiters] unless holders.empty? && waiters.empty?
      end

      private

      def undo_again(lease, began_at)
        pauses = []
        @scheduler.call_later(AFTERMATH_S) do
          asked_at = Clock.now
          answered = undo(lease, attempt_timeout)
          pauses = [AFTERMATH_S, *[asked_at - began_at] * 2] unless answered
          again_at = pauses.any? && (asked_at + pauses.shift)
          again_at if again_at && again_at <= began_at + lease.ttl
        end
      end

      def set_up(*)
        @lines = Lines.new
        @watched = {}
        super
      end

      def request_for(lease, ttl)
        return super unless lease.share

        raise UnsupportedError,
              "#{self.class::ONE_HOLDER}: there are neither semaphores nor read-write locks"
      end
    end
  end
end
