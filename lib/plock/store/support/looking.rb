# frozen_string_literal: true

require_relative "in_ruby"
require_relative "lines"

module Plock
  class Store
    # For servers that have no wait queue, and send no notifications. Each process serves its own
    # waiters in order, and polls with growing pauses for the first of them. A key has only one
    # holder. docs/new-store.md lists the methods of such a store. It also has the constant
    # `ONE_HOLDER`, the error message that says why a key cannot be shared.
    #
    # @api private
    module Looking
      include InRuby

      # Seconds after which an earlier request can no longer arrive, unless the store was
      # unreachable.
      AFTERMATH_S = 1.0
      private_constant :AFTERMATH_S

      # A new caller makes no attempt while other callers of this process wait for the key.
      def ask(request, how, deadline)
        return if how == :once && @lines.anybody?(request.key)

        asked_at = Clock.now
        fence = add(request.lease, request.ttl, deadline)
        AcquireRequest::Answer.new(fence, asked_at) if fence
      end

      def line_up(request) = @lines.line_up(request)

      # Undoes a grant that the caller may not know of. The acquire may reach the server after this
      # first undo. So the scheduler undoes the grant again after AFTERMATH_S, and repeats this
      # until the store answers. If the first undo fails and `within` is given, the scheduler also
      # repeats it at once.
      #
      # After an outage, more undos follow the first answer. A server that was stopped may answer
      # the undo before it carries out an acquire that it received earlier. So the scheduler undoes
      # the grant once more after AFTERMATH_S. And the operating system resends the data of a
      # closed connection with pauses that double. So the acquire may take as long as the outage
      # itself to arrive. The scheduler therefore undoes the grant twice more, with pauses as long
      # as the outage. No undo is repeated after the lease would have expired.
      #
      # @param within [Float, nil] seconds that the caller can wait; nil: `attempt_timeout`
      def take_back(lease, within = nil, **)
        key_and_token = stand_in_for(lease)
        undone = false
        undo_again(key_and_token, Clock.now) { undone } # first, because the rest may be interrupted
        undone = undo(lease, within || attempt_timeout)
        return if undone || within.nil?

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
      def examine(key, _shared, budget = nil)
        holders = holders(key, budget && (Clock.now + budget))
        waiters = @lines.waiters(key)
        [holders, waiters] unless holders.empty? && waiters.empty?
      end

      private

      # @yieldreturn [Boolean] has the first undo been answered?
      def undo_again(lease, began_at)
        pauses = nil
        @scheduler.call_later(AFTERMATH_S) do
          asked_at = Clock.now
          later = [AFTERMATH_S, *[asked_at - began_at] * 2]
          if !undo(lease, attempt_timeout) then pauses = [AFTERMATH_S, *later]
          else pauses ||= yield ? [] : later
          end
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
