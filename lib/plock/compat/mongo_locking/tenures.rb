# frozen_string_literal: true

require_relative "exceptions"

module Mongo
  module Locking
    # Runs a block with a lock. A fiber that already holds the lock does not acquire it again,
    # because it would wait for itself. A forked child has none of its parent's locks.
    #
    # @api private
    module Tenures
      class << self
        # Holds the lock while the block runs.
        def hold(name, options, &block)
          lease = own(name)
          raise Exceptions::LockFailure, "lock #{name} was lost" if lease&.lost?
          return begin_tenure(name, options, &block) unless lease&.valid?

          Locking.debug { "lock #{name} is held already" }
          yield
        end

        def held?(name) = own(name)&.valid? || false

        private

        # @return [::Plock::Lease, nil] this fiber's lease, which may be lost
        def own(name)
          ::Plock::Locking::OwnHolds.leases.map(&:last).find { |lease| lease.key == name.store_key }
        end

        def begin_tenure(name, options)
          entered = false
          value = Locking.store.try_acquire(name.store_key, **lease_options(name, options)) do
            entered = true
            Locking.debug { "lock #{name} acquired" }
            yield
          end
          return value if entered

          Locking.warn("lock #{name} could not be acquired")
          raise Exceptions::LockTimeout, "unable to acquire lock #{name}"
        rescue ::Plock::Error => e
          raise if entered

          Locking.error("lock #{name}: #{e.class}: #{e.message}")
          raise Exceptions::LockFailure, "unable to acquire lock #{name}"
        end

        def lease_options(name, options)
          {
            ttl: options[:max_lifetime],
            wait:
              patience(**options.slice(:max_retries, :first_retry_interval, :max_retry_interval)),
            renew: true,
            label: name.label
          }
        end

        # @return [Numeric] the sum of the pauses between `max_retries` tries, in seconds, but at
        #   most SPAN_MAX
        def patience(max_retries:, first_retry_interval:, max_retry_interval:)
          longest = ::Plock::Locking::Arguments::SPAN_MAX
          pauses = max_retries - 1
          pause, total = first_retry_interval, 0
          while pauses >= 1 && pause.positive? && pause < max_retry_interval && total < longest
            total += pause
            pause *= 2
            pauses -= 1
          end
          pause = [pause, max_retry_interval].min
          total += pause * [pauses, longest / pause].min.floor if pauses >= 1 && pause.positive?
          [total, longest].min
        end
      end
    end
  end
end
