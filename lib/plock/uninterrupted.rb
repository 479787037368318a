# frozen_string_literal: true

module Plock
  # The argument that makes `Thread.handle_interrupt` defer every interrupt to the end of its block.
  # This is one frozen Hash, because a literal would make a new Hash at each call.
  #
  # @api private
  UNINTERRUPTED = { Object => :never }.freeze
end
