# frozen_string_literal: true

require "async"

# Before each wait, async calls IO#timeout, which exists since Ruby 3.2. This file defines it on an
# older Ruby. Otherwise, all waits except plock's would fail there, even those with which Ruby loads
# a file.
class IO
  def timeout = nil
end unless IO.method_defined?(:timeout)
