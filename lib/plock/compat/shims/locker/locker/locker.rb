# frozen_string_literal: true

# For code that requires locker/locker: plock stands in for that gem.
require "plock/compat/locker"
