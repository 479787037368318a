# frozen_string_literal: true

require_relative "uninterrupted"

module Plock
  # A mutex for short work. Neither its holder nor a waiter can be interrupted.
  #
  # When a mutex is unlocked, Ruby wakes the first waiter. If that waiter is interrupted before it
  # has locked the mutex, Ruby 3.1 wakes no other waiter. Then the other waiters sleep until the
  # next thread unlocks the mutex, perhaps for ever. So a waiter must not be interrupted. If it is
  # interrupted nevertheless, it wakes the next waiter.
  #
  # @api private
  class BriefMutex < Thread::Mutex
    def lock = handing_on { super }

    def synchronize = handing_on { super }

    # Like {#synchronize}, but masks interrupts only while it waits for the mutex. Use this method
    # for work that may take long. Use it also for work that starts threads, because a new thread
    # inherits the mask.
    def hold
      free = !owned? # false if an outer call of this fiber holds the mutex; `lock` then raises
      lock
      yield
    ensure
      # a signal handler may raise in `lock` after the mutex was locked, so `owned?` decides
      Interrupts.complete { unlock if free && owned? }
    end

    private

    # Masks interrupts. The mask does not keep away Fiber#raise, with which a Fiber scheduler ends a
    # task. If such an exception ends the wait, unlocking the mutex wakes its next waiter.
    def handing_on(&wait)
      Thread.handle_interrupt(UNINTERRUPTED, &wait)
    rescue Exception # rubocop:disable Lint/RescueException -- of any kind
      unlock if try_lock
      raise
    end
  end
end
