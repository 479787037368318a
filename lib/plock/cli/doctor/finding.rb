# frozen_string_literal: true

module Plock
  module CLI
    module Doctor
      # The result of one check. `check` is the name of the check, and `remedy` may be nil.
      #
      # The level is `:fine`; `:advice`: the configuration could be better; `:danger`: a key may get
      # two holders, or no key can be acquired; or `:unknown`: the check could not run.
      Finding = Struct.new(:check, :level, :message, :remedy) do
        def danger? = level == :danger
      end
    end
  end
end
