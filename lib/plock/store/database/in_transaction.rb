# frozen_string_literal: true

require_relative "inside"

module Plock
  class Store
    class Database
      # Leases that are part of the caller's transaction, for `inside: true`.
      #
      # @api private
      module InTransaction
        private

        def inside? = @inside && @origin.in_transaction?

        # @return [Boolean] are changes to the lease part of the caller's transaction?
        # @raise [UnsupportedError] the lease is part of another open transaction, so other
        #   connections cannot see it
        def inside_with?(lease)
          return inside? && lease.share.nil? if lease.transaction.nil?
          return true if inside? && @origin.connection.equal?(lease.transaction)

          raise UnsupportedError, "the lease was taken in a transaction that is still open: " \
                                  "extend and release it there, or when that has ended"
        end

        # Makes one attempt.
        def take(key, ttl, wait, renew, max_hold, label, watch, share, _asking, _replicas, &given)
          return super unless inside?

          asks_to_watch = renew == true || (watch && !renew)
          refuse_inside(
            wait: wait.positive?, "renew: or on_lost:": asks_to_watch,
            "a lock that is shared": share
          )
          lease = lease_for(key, label: label)
          fence = nil
          Dispatcher.start
          asked_at = Clock.now
          handing_out(given, -> { leave_inside(lease, ttl) if fence }) do
            @origin.inside do |inside|
              fence =
                tables.acquire(
                  inside, key, lease.token, micros(ttl), @site.record(label, lease.token),
                  release_deadline
                )
            end
            if fence
              lease.given(fence, asked_at, ttl)
              lease.transaction = @origin.connection
              in_doubt = -> do
                lease.lose
                take_back_later(lease)
              end
              @origin.when_over(-> { lease.lose }, -> { lease.transaction = nil }, in_doubt)
              hold_of(lease, 0.0, false)
            end
          end
        end

        # If the release fails, the caller may still commit the transaction, and the lease with it.
        # After such a commit, the lease is released on a connection of the store.
        def leave_inside(lease, ttl)
          give_back_inside(lease, 0.0, release_deadline, acquired_here: true) if inside?
        rescue UnavailableError
          taken_back = -> { take_back_later(lease, ttl: ttl) }
          @origin.when_over(-> {}, taken_back, taken_back) # also if the COMMIT gets no answer
        end

        def refuse_inside(refused)
          what, = refused.find { |_, wanted| wanted }
          return unless what

          raise UnsupportedError, "inside a transaction there is no #{what}: " \
                                  "others see nothing of it before the transaction ends"
        end

        # PostgreSQL calls the first waiter when the transaction is committed. This passes an empty
        # channel, so PostgreSQL also calls a waiter of this process. If the transaction is rolled
        # back, the store makes the release again, because the owner has ended the lease.
        #
        # @param acquired_here [Boolean] does a rollback also undo the acquire?
        def give_back_inside(lease, keep, deadline, acquired_here: false)
          kept_until = Clock.now + keep
          ours = @origin.inside do |inside|
            waiting = tables.release(inside, lease.key, lease.token, micros(keep), deadline)
            next if waiting.nil?

            if waiting && keep.zero?
              inside.forget_sessions
              tables.call_first(inside, lease.key, "", deadline)
            end
            true
          end
          if ours && !acquired_here
            @origin.when_over(-> { give_back_later(lease, [kept_until - Clock.now, 0.0].max) })
          end
          !ours.nil?
        end

        # If the caller's savepoint is rolled back, so is the extension. The lease then ends when it
        # would have ended without the extension.
        def prolong_inside(lease, span, deadline)
          valid_until = lease.valid_until
          ours = @origin.inside do |inside|
            tables.prolong(inside, lease.key, lease.token, micros(span), false, deadline) || nil
          end
          @origin.when_over(-> { lease.end_by(valid_until) }) if ours
          ours || false
        end
      end
    end
  end
end
