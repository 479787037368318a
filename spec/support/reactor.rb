# frozen_string_literal: true

require "async"

# Before each wait, async calls IO#timeout, which Ruby has had since version 3.2. Without this
# method, only plock could wait under an older Ruby's scheduler. Even Ruby itself would fail when it
# loads a file.
class IO
  def timeout = nil
end unless IO.method_defined?(:timeout)
