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
      free = !owned? # an outer call of this fiber may hold the mutex; then `lock` raises
      lock
      yield
    ensure
      # `lock` may have locked the mutex even if a signal handler then raised in it
      Interrupts.complete { unlock if free && owned? }
    end
  end
end
