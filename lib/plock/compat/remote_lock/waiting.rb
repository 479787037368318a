# frozen_string_literal: true

require_relative "holdings"
require_relative "leftovers"

class RemoteLock
  # Lets plock's own adapters wait in a queue instead of making one try after another.
  #
  # @api private
  module Waiting
    METHODS = %i[store has_key? delete].freeze

    SPANS = (Plock::Locking::Arguments::TTL_MIN..Plock::Locking::Arguments::SPAN_MAX).freeze
    private_constant :METHODS, :SPANS

    # A test or a subclass may replace one of the METHODS, or Kernel.sleep. Then RemoteLock must
    # try repeatedly, and call the replacement each time.
    #
    # @return [Boolean] whether RemoteLock may call `obtain` instead of trying repeatedly
    def obtains?
      Kernel.method(:sleep).source_location.nil? &&
        METHODS.all? { |name| method(name).source_location.first.start_with?(__dir__) }
    end

    private

    def span(seconds)
      number = Float(seconds)
      return number if SPANS.cover?(number)

      raise ArgumentError,
            "expiry must be more than 0 seconds, and 366 days at most (got #{seconds.inspect})"
    rescue TypeError
      raise ArgumentError, "expiry must be a number of seconds (got #{seconds.inspect})"
    end

    def patience(seconds) = [seconds.to_f, SPANS.end].min

    # Acquires a lease, and keeps it if the block returns true. The lease object exists before the
    # store grants the lease, so plock can release the lease after an interrupt at any moment. The
    # lease's key is a digest, so `key` may have any length. The lease's label shows `key`.
    #
    # @param undo [#call, nil] called before the lease is released after a failure; releases the
    #   lock that the block may have acquired
    # @yieldreturn [Boolean] whether this fiber now holds the lock
    def leased(store, key, seconds, wait, undo = nil)
      config = store.config
      name = "remote_lock:#{Plock.digest(key)}"
      label = Plock::Locking::Arguments.shortened_label(key)
      options = Plock::Locking::AcquireOptions.new(config, nil)
                                   .with(ttl: span(seconds), wait: patience(wait), label: label)
      lease = Plock::Lease.new(name, options)
      keep = ->(_ours) { Holdings.add(place(store, key), lease) }
      Plock::Locking::Acquisition.handing_out(keep, -> { give_up(lease, undo) }) do
        store.acquiring(
          name, config.store_key(name), options, nil, raises: false, lease: lease
        ) && yield(lease)
      end || false
    end

    # Called after an exception or a refusal. If the lock cannot be released, it expires.
    def give_up(lease, undo)
      undo&.call
    rescue Plock::Error
      nil
    ensure
      lease.finish
    end

    def place(backing, key) = [backing, key, owner(key)].freeze

    # The name under which this fiber owns the lock in the store.
    def owner(key)
      name = Leftovers.name(turns, key)
      name ? uid_of(name) : uid
    end
  end
end
