# frozen_string_literal: true

require_relative "../../locking"

module Plock
  module Guard
    # The calls that guards make to a store about a lease that they hold.
    #
    # @api private
    module Held
      # The shortest and the longest span that a store accepts, in seconds.
      LEAST = Locking::Arguments::TTL_MIN
      MOST = Locking::Arguments::SPAN_MAX

      class << self
        # Gives a job's lease back to the dump in the job's ticket. The next run can then adopt the
        # lease from that dump. If an interrupt stops this method, it can start over.
        #
        # @param span [Float] seconds
        # @raise [LeaseLost]
        # @raise [Error] the store failed; then the lease expires
        def hand_back(store, lease, ticket, span)
          Thread.handle_interrupt(UNINTERRUPTED) do
            dump = lease.dumped || lease.dump
            opened(store).hand_back(dump, ticket.lease, span.clamp(LEAST, MOST))
          end
        end

        # Releases a lease, or lets it expire if its key must stay taken.
        #
        # @param left [Float] seconds that the key must stay taken
        def settle(lease, left)
          return lease.release if left < LEAST

          begin
            Interrupts.complete { lease.extend(ttl: [left, MOST].min) }
          ensure
            # the dump keeps this process from renewing or releasing the lease
            Interrupts.complete { lease.dump if lease.valid? }
          end
        end

        # Gives the lease of a queued job a new TTL.
        #
        # @param span [Float] seconds
        # @raise [Error] the store failed
        def prolong(store, ticket, span)
          opened(store).hand_back(ticket.lease, ticket.lease, span.clamp(LEAST, MOST))
        rescue LeaseLost
          nil # the job detects the loss when it starts
        end

        # Ends the lease of a job that is no longer queued.
        #
        # @param most [Float] the longest time in seconds that `at_least:` may keep the key taken
        # @return [Boolean] was the lease still held?
        # @raise [Error] the store failed
        def give_back(store, ticket, most = MOST)
          Interrupts.complete do
            next false unless ticket.lease

            store.adopt(ticket.lease, renew: false) do |lease|
              settle(lease, ticket.left_to_keep(most))
            end
            ticket.lease = nil
            true
          rescue LeaseLost, ArgumentError # ArgumentError: the dump is from another store
            ticket.lease = nil
            false
          end
        end

        # The module Plock stands for the default store, but has only the public API of a store.
        def opened(store) = store.equal?(Plock) ? Plock.store : store
      end
    end
  end
end
