# frozen_string_literal: true

class RemoteLock
  # One request for a lease. The lease is known before it is granted, so that whoever is interrupted can give it back at any moment.
  #
  # @api private
  class Claim
    # @return [Plock::Lease]
    attr_reader :lease

    # @param store [Plock::Locking]
    # @param key [String]
    # @param options [Hash{Symbol => Object}] as for Plock::Locking#acquire
    # @raise [ArgumentError]
    def initialize(store, key, **options)
      @store = store
      @key = key
      @profile = store.__send__(:profile)
      @terms = Plock::Locking::Terms.new(@profile, nil).with(**options)
      @lease = Plock::Lease.new(key, @terms)
    end

    # @return [Boolean] is it granted?
    # @raise [Plock::Error] the store failed
    def ask
      !@store.__send__(:trying, @key, @profile.store_key(@key), @terms, nil, lease: @lease).nil?
    end

    # Gives back what was granted, if anything was. Raises nothing.
    #
    # @return [void]
    def give_up
      @lease.finish
    end
  end
end
