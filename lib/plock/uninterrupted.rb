# frozen_string_literal: true

module Plock
  # For `Thread.handle_interrupt`: until the end of its block, every interrupt waits. One frozen
  # hash, because each call would make a new one of a literal.
  #
  # @api private
  UNINTERRUPTED = { Object => :never }.freeze
end
