# frozen_string_literal: true

require "async"

# Before each wait, async calls IO#timeout, which Ruby has had since version 3.2. On an older Ruby,
# all waits except plock's would fail without this method, even when Ruby itself loads a file.
class IO
  def timeout = nil
end unless IO.method_defined?(:timeout)
