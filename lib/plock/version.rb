# frozen_string_literal: true

module Plock
  VERSION = "0.1.0"
end
