# frozen_string_literal: true

require_relative "holdings"

class RemoteLock
  # How plock's own adapters wait: in line, instead of asking again and again.
  #
  # @api private
  module Waiting
    # What an adapter is tried through.
    METHODS = %i[store has_key? delete].freeze

    SPANS = (Plock::Locking::Arguments::TTL_MIN..Plock::Locking::Arguments::SPAN_MAX).freeze
    private_constant :METHODS, :SPANS

    # Where one of the methods is not this gem's any more, or Kernel.sleep not Ruby's, as in a test
    # or a subclass, nobody may go past it.
    #
    # @return [Boolean] does `obtain` come to the same as asking again and again?
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

    # Asks for a lease, and keeps it if the block says so. It is known before it is granted, so that
    # it can be given back at any moment. A key of any length has one, whose label says what it is
    # for.
    #
    # @param undo [#call, nil] gives back what the block may have taken; the lease is given back
    #   after that
    # @yieldreturn [Boolean] is the lock ours?
    def leased(store, key, seconds, wait, undo = nil)
      profile = store.__send__(:profile)
      name = "remote_lock:#{Plock.digest(key)}"
      label = Plock::Locking::Arguments.shortened_label(key)
      terms = Plock::Locking::AcquireOptions.new(profile, nil)
                                   .with(ttl: span(seconds), wait: patience(wait), label: label)
      lease = Plock::Lease.new(name, terms)
      keep = ->(_ours) { Holdings.add(place(store, key), lease) }
      Plock::Locking::Acquisition.handing_out(keep, -> { give_up(lease, undo) }) do
        store.__send__(:trying, name, profile.store_key(name), terms, nil, lease: lease) &&
          yield(lease)
      end || false
    end

    # An exception is on its way, or the lock was refused; what cannot be given back frees itself.
    def give_up(lease, undo)
      undo&.call
    rescue Plock::Error
      nil
    ensure
      lease.finish
    end

    # What is asked here is asked in this fiber's name.
    def place(backing, key) = [backing, key, uid].freeze
  end
end
