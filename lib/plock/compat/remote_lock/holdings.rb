# frozen_string_literal: true

class RemoteLock
  # The leases that this process has, by store, key and owner: whoever releases a lock may do so through another adapter than the one it
  # was acquired with. Those whose time is over are forgotten now and then.
  #
  # @api private
  class Holdings
    SWEEP_AT_LEAST = 64
    private_constant :SWEEP_AT_LEAST

    # @return [Holdings] of all adapters
    def self.all = ALL

    def initialize
      @lock = Mutex.new
      start_afresh
    end

    # @param place [Array] store, key and owner
    # @param lease [Plock::Lease]
    # @return [void]
    def add(place, lease)
      enter do
        sweep if @leases.size >= @sweep_at
        @leases[place] = lease
      end
    end

    # @return [Plock::Lease, nil]
    def find(place)
      enter { @leases[place] }
    end

    # @return [Plock::Lease, nil] that is not known here any more
    def take(place)
      enter { @leases.delete(place) }
    end

    private

    # Ruby frees in a forked child what threads of the parent had locked.
    def enter
      @lock.synchronize do
        start_afresh unless @pid == Process.pid
        yield
      end
    end

    # A forked child has none of its parent's.
    def start_afresh
      @pid = Process.pid
      @leases = {}
      @sweep_at = SWEEP_AT_LEAST
    end

    def sweep
      @leases.select! { |_place, lease| lease.valid? }
      @sweep_at = [2 * @leases.size, SWEEP_AT_LEAST].max
    end

    ALL = new
    private_constant :ALL
  end
end
