# frozen_string_literal: true

require "async"

# async asks whatever is waited for how long that may take, which Ruby can tell since 3.2. Without
# it nothing else than plock could wait under a scheduler: not Ruby itself, when it loads a file
# there.
class IO
  def timeout = nil
end unless IO.method_defined?(:timeout)
