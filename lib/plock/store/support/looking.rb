# frozen_string_literal: true

require_relative "in_ruby"
require_relative "lines"

module Plock
  class Store
    # Stores of which nobody tells who waits, and what is free: each process serves its own in
    # order, and looks at growing intervals for the first of them only. A key has one holder there.
    # Besides what {InRuby} asks for, such a store has
    #
    # - `add(grant, ttl, deadline)`, one attempt, which returns the fence, or nil;
    # - `undo(grant, within)`, which gives back what the token has of the key: could the store be
    #   asked?
    # - `holders(key)`, as {Status} tells them, and `ONE_HOLDER`, which says why nothing can be
    #   shared.
    #
    # @api private
    module Looking
      include InRuby

      # Seconds after which nothing arrives any more that was sent before.
      AFTERMATH_S = 1.0
      private_constant :AFTERMATH_S

      # Callers of this process that wait already come first.
      def ask(request, how, deadline)
        return if how == :once && @lines.anybody?(request.key)

        asked_at = Clock.now
        fence = add(request.grant, request.ttl, deadline)
        AcquireRequest::Answer.new(fence, asked_at) if fence
      end

      def line_up(request) = @lines.line_up(request)

      # Takes back what may have been granted, now and once more, for the request may arrive after
      # that: and again while the store cannot be asked, as long as the lease would have lasted.
      def take_back(grant, within = attempt_timeout, **)
        key_and_token = stand_in_for(grant)
        over_at = Clock.now + grant.ttl
        @scheduler.call_later(AFTERMATH_S) do # first, whatever interrupts the rest
          again_at = Clock.now + AFTERMATH_S
          again_at unless undo(key_and_token, attempt_timeout) || again_at > over_at
        end
        undo(grant, within)
      end

      def tend(grant)
        @watched[grant.token] = grant
        super
      end

      def forget(grant)
        @watched.delete(grant.token)
        super
      end

      # @api private
      def examine(key, _shared, _budget = nil)
        holders = holders(key)
        waiters = @lines.waiters(key)
        [holders, waiters] unless holders.empty? && waiters.empty?
      end

      private

      def set_up(*)
        @lines = Lines.new
        @watched = {}
        super
      end

      def request_for(grant, ttl)
        return super unless grant.share

        raise UnsupportedError,
              "#{self.class::ONE_HOLDER}: there are neither semaphores nor read-write locks"
      end
    end
  end
end
