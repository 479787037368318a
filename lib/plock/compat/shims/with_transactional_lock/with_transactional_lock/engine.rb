# frozen_string_literal: true

# For code that requires with_transactional_lock/engine: plock stands in for that gem.
require "plock/compat/with_transactional_lock"
