# frozen_string_literal: true

module Plock
  # For `Thread.handle_interrupt`: every interrupt waits until the end of its block. This is one
  # frozen Hash, because a literal would make a new Hash at each call.
  #
  # @api private
  UNINTERRUPTED = { Object => :never }.freeze
end
