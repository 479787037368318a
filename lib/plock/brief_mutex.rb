# frozen_string_literal: true

require_relative "uninterrupted"

module Plock
  # A mutex for short work. Neither its holder nor a waiter can be interrupted.
  #
  # When a mutex is unlocked, Ruby wakes the first waiter. If that waiter is interrupted before it
  # has locked the mutex, Ruby 3.1 wakes no other waiter. Then the other waiters sleep until the
  # next thread unlocks the mutex, perhaps for ever. So a waiter must not be interrupted.
  #
  # @api private
  class BriefMutex < Thread::Mutex
    def lock
      Thread.handle_interrupt(UNINTERRUPTED) { super }
    end

    def synchronize
      Thread.handle_interrupt(UNINTERRUPTED) { super }
    end

    # Like {#synchronize}, but interrupts are masked only during the wait for the mutex. Use this
    # for work that may take long, or that starts threads, because they would inherit the mask.
    def hold
      held = false
      Thread.handle_interrupt(UNINTERRUPTED) { held = !lock.nil? }
      yield
    ensure
      Interrupts.complete { unlock if held && owned? }
    end
  end
end
