# frozen_string_literal: true

require "plock/store/support/backoff"
require_relative "waiting"

class RemoteLock
  # For locks that processes of the original are to see: key and value stand in the store as the
  # original writes them, and that alone decides who has the lock. Besides, who acquires it has a
  # lease of plock's, its turn: that is what the next one waits for, and it is given back together
  # with the lock.
  #
  # A holder without a turn, as those of the original, tells nobody when it leaves. Whoever has the
  # turn looks at its lock, at growing intervals.
  #
  # An adapter that includes this has `turns`, the store of plock's that turns are taken in,
  # `free(key)`, which releases the lock, and `free_with(key, turn)`, which releases both.
  #
  # @api private
  module QueuedAcquire
    include Waiting

    # Seconds between two looks at the lock: the first time, and at most.
    LOOK_S = [0.005, 0.05].freeze
    private_constant :LOOK_S

    # @param key [String] as it stands in the store
    # @param seconds [Numeric] until the lock frees itself
    # @param wait [Numeric] seconds of patience
    # @return [Boolean] is the lock ours?
    def obtain(key, seconds, wait)
      deadline = Plock::Clock.now + patience(wait)
      taken = false
      leased(turns, key, seconds, wait, -> { free(key) if taken }) do |turn|
        taken = true # until the store has refused it, it may be
        taken = knock(key, seconds, turn, deadline)
      end
    end

    # @return [Boolean] was it ours?
    def delete(key)
      Thread.handle_interrupt(Plock::Locking::Acquisition.mask) do
        turn = Holdings.take(place(turns, key))
        turn.nil? || turn.over? ? free(key) : free_with(key, turn)
      end
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
      keep(turn) if pause # as long as the lock
      true
    end

    # Who has lost his turn is only not told.
    def keep(turn)
      turn.extend
    rescue Plock::LeaseLost
      turn
    end
  end
end
