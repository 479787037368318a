# frozen_string_literal: true

module Plock
  module Locking
    # The leases of the blocks and monitors that one fiber is inside. While the fiber waits, no
    # other code can release these leases. A lease that has ended, or that belongs to the parent
    # process, does not count. A lease that was returned to the caller does not count either,
    # because another thread may release it.
    #
    # Each fiber has an Array in which stores and leases alternate, the innermost lease last. The
    # binding also adds to this Array and removes from it (binding_direct.c).
    #
    # @api private
    module OwnHolds
      class << self
        def here
          Thread.current[:plock_own_holds] ||= []
        end

        def add(store, taken) = here.push(store, taken)

        # @param taken [Lease, LeaseGroup] ignored if it was not added
        def delete(taken)
          held = here
          return held.pop(2) if held.last.equal?(taken)

          index = held.rindex { |each| each.equal?(taken) }
          held.slice!(index - 1, 2) if index
        end

        # @param share [Share, nil] the share that the fiber asks for
        # @return [Boolean] would this fiber wait for itself?
        def in_the_way?(store, store_key, share)
          limit = share ? share.limit : 1
          !limit.nil? && on(store, store_key).size >= limit
        end

        # @return [Lease, nil] the innermost lease on the key
        def find(store, store_key) = on(store, store_key).last

        # @return [Array<Array(Locking, Lease)>] innermost first; includes lost leases, because
        #   their owner must be notified
        def leases
          here.each_slice(2).reverse_each.flat_map do |store, taken|
            leases = []
            taken.each_lease { |lease| leases << [store, lease] unless lease.over? }
            leases
          end
        end

        private

        # @return [Array<Lease, LeaseGroup>] the innermost last
        def on(store, store_key)
          held = here
          return held if held.empty? # makes no object

          held.each_slice(2).filter_map do |from, taken|
            taken if from.equal?(store) && taken.holds?(store_key)
          end
        end
      end
    end
  end
end
