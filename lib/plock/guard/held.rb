# frozen_string_literal: true

require_relative "../default_store"

module Plock
  module Guard
    # The locks and semaphores of the default store, as guards use them.
    #
    # @api private
    module Held
      # A shorter span cannot be asked for.
      LEAST = Locking::Arguments::TTL_MIN
      MOST = Locking::Arguments::SPAN_MAX

      class << self
        # A key of which one may be had is the lock that everybody else takes, too.
        #
        # @param limit [Integer]
        # @param options [Hash] as for {Locking#acquire}
        # @return [Object, Lease]
        def acquire(key, limit, **options, &block)
          limit == 1 ? Plock.acquire(key, **options, &block) : Plock.semaphore(key, permits: limit).acquire(**options, &block)
        end

        # @return [Status]
        def status(key, limit)
          limit == 1 ? Plock.status(key) : Plock.semaphore(key, permits: limit).status
        end

        # @return [String] the key in the store
        def store_key(key, limit)
          Plock.store.__send__(:profile).store_key(key, limit == 1 ? Locking::Kind::LOCK : Locking::Kind::SEMAPHORE)
        end

        # Takes over what was handed over with a long span, and gives it the span of what is renewed.
        #
        # @param ttl [Float] seconds
        # @return [Object] the block's value
        # @raise [LeaseLost]
        def adopt(dump, ttl:, **options, &block)
          Plock.adopt(dump, ttl: ttl, renew: true, **options, &block)
        end

        # Hands a lease over to whoever has its dump, for a while.
        #
        # @param span [Float] seconds
        # @return [void]
        def leave(lease, span)
          lease.extend(ttl: span.clamp(LEAST, MOST))
        ensure
          lease.dump if lease.valid?
        end

        # Ends a lease, or leaves it to its time where its key is to stay taken.
        #
        # @param left [Float] seconds
        # @return [void]
        def settle(lease, left)
          left < LEAST ? lease.release : leave(lease, left)
        end

        # Gives the lease of a job that is queued a new span.
        #
        # @param ticket [Ticket]
        # @param span [Float] seconds
        # @return [void]
        # @raise [Error] the store could not be asked
        def prolong(ticket, span)
          Plock.adopt(ticket.lease, ttl: span.clamp(LEAST, MOST), &:dump)
        rescue LeaseLost
          nil # where it starts, that will be found out
        end

        # Ends the lease of a job that is not queued any more.
        #
        # @param ticket [Ticket]
        # @param most [Float] seconds that its key may stay taken, where that was asked for
        # @return [Boolean] was it still there?
        # @raise [Error] the store could not be asked
        def give_back(ticket, most = MOST)
          return false unless ticket.lease

          Plock.adopt(ticket.lease) { |lease| settle(lease, ticket.left_to_keep(most)) }
          ticket.lease = nil
          true
        rescue LeaseLost, ArgumentError # ArgumentError: no dump of this store's; it was another one when the job was pushed
          ticket.lease = nil
          false
        end
      end
    end
  end
end
