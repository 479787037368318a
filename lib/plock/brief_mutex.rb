# frozen_string_literal: true

require_relative "uninterrupted"

module Plock
  # A mutex for the work of a moment: neither its holder nor a waiter is interrupted.
  #
  # An unlocked mutex calls its first waiter. If that waiter is interrupted before it has locked the
  # mutex, Ruby 3.1 calls no other one. Then the others sleep until the next thread unlocks the
  # mutex, perhaps for ever. So a waiter must not be interrupted.
  #
  # @api private
  class BriefMutex < Thread::Mutex
    def lock
      Thread.handle_interrupt(UNINTERRUPTED) { super }
    end

    def synchronize
      Thread.handle_interrupt(UNINTERRUPTED) { super }
    end

    # The same for work that may take long, or start threads, which would inherit the mask: only the
    # wait for the mutex is not interrupted.
    def hold
      held = false
      Thread.handle_interrupt(UNINTERRUPTED) { held = !lock.nil? }
      yield
    ensure
      Thread.handle_interrupt(UNINTERRUPTED) { unlock if held }
    end
  end
end
