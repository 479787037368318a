# frozen_string_literal: true

require "plock/store/support/backoff"
require_relative "waiting"

class RemoteLock
  # Acquires locks that processes using the original gem must see. The key and the value in the
  # store are the same as the original gem's, and they alone decide which process holds the lock. A
  # caller also acquires a lease of plock, called its turn, and releases the turn with the lock.
  # The next waiter waits for that turn.
  #
  # Holders that use the original gem have no turn, and notify no waiter when they release. So the
  # caller that has the turn polls their lock, with growing pauses.
  #
  # An adapter that includes this module has `turns`, the store for the turns; `free(key)`, which
  # releases the lock; and `free_with(key, turn)`, which releases both.
  #
  # @api private
  module QueuedAcquire
    include Waiting

    # Seconds between two polls: the first pause, and the longest one.
    LOOK_S = [0.005, 0.05].freeze
    private_constant :LOOK_S

    # @param key [String] the key in the store
    # @param seconds [Numeric] seconds until the lock expires
    # @param wait [Numeric] seconds to wait
    # @return [Boolean] whether the lock is ours
    def obtain(key, seconds, wait)
      deadline = Plock::Clock.now + patience(wait)
      taken = false
      leased(turns, key, seconds, wait, -> { free(key) if taken }) do |turn|
        taken = true # the lock may be ours until the store refuses it
        taken = knock(key, seconds, turn, deadline)
      end
    end

    # @return [Boolean] whether the lock was ours
    def delete(key)
      place = place(turns, key)
      turn = Holdings.find(place)
      Plock::Interrupts.defer do
        turn.nil? || turn.over? ? free(key) : free_with(key, turn)
      end
    ensure
      # a turn that is not over stays in Holdings, because this fiber may repeat the release
      Plock::Interrupts.complete { Holdings.take(place) if turn&.over? }
    end

    private

    def knock(key, seconds, turn, deadline)
      pause = nil
      until store(key, seconds)
        left = deadline - Plock::Clock.now
        return false unless left.positive?

        pause ||= Plock::Store::Backoff.new(*LOOK_S)
        sleep([pause.next, left].min)
        keep(turn) if turn.remaining < turn.ttl / 2
      end
      keep(turn) if pause # the lock is newer than the turn, and must not outlast it
      true
    end

    # Extends the turn. A lost turn does no harm, because the key in the store alone decides which
    # process holds the lock.
    def keep(turn)
      turn.extend
    rescue Plock::LeaseLost
      turn
    end
  end
end
