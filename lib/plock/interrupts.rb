# frozen_string_literal: true

module Plock
  # Lets a cleanup run in spite of Thread#kill, Thread#raise and Timeout.
  #
  # An interrupt can come between the end of a block and the first line of its `ensure`, or
  # between two of its lines. A lock that the `ensure` should have released then stays held.
  #
  # @api private
  #
  # @!method self.finally(cleanup)
  #   Runs the block and then the cleanup, on every way out of the block. No interrupt comes
  #   between the two, and one that comes during the cleanup is raised after it. In the block the
  #   caller's own masks are in force.
  #   @param cleanup [#call] takes a moment at most; may run before the block has done anything
  #   @yield
  #   @return [Object] the block's value
  #   @api private
  module Interrupts
  end
end
