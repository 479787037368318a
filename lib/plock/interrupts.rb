# frozen_string_literal: true

module Plock
  # Lets a cleanup run to its end in spite of Thread#kill, Thread#raise, Timeout and signals.
  #
  # An interrupt can come between the end of a block and the first line of its `ensure`, or
  # between two lines of the `ensure`. A lock that the `ensure` should have released then stays
  # held.
  #
  # `Thread.handle_interrupt` defers interrupts, but not the handlers of signals. These run on the
  # main thread at once, and may raise. Ruby's own handler of INT raises, for example, and so does
  # `trap("TERM") { exit }`. If such an exception cuts a cleanup short, the cleanup runs again
  # from its beginning, and only then is the exception raised. So a cleanup must be correct if it
  # starts over after any of its steps. A cleanup that raises an {Error} itself does not run
  # again, and no cleanup runs more than 16 times.
  #
  # Under a Fiber scheduler, none of these methods defers interrupts. Masks belong to threads, so
  # the fibers of one thread would remove each other's masks.
  #
  # @api private
  #
  # @!method self.defer
  #   Defers interrupts while the block runs. Unlike {complete}, this method runs the block only
  #   once, so a signal handler that raises can still cut the block short.
  #   @yield
  #   @return [Object] the block's value
  #
  # @!method self.complete
  #   Runs the block, which is a cleanup, to its end. In an `ensure`, call this method first.
  #   @yield the cleanup, which must take only a moment
  #   @return [Object] the block's value
  #
  # @!method self.finally(cleanup)
  #   Runs the block and then the cleanup, on every way out of the block. No interrupt comes
  #   between the two. The block runs under the caller's own masks.
  #   @param cleanup [#call] a cleanup as for {complete}; it may run before the block has done
  #     anything
  #   @yield
  #   @return [Object] the block's value
  module Interrupts
  end
end
