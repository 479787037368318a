# frozen_string_literal: true

# For code that requires mongo/locking: plock stands in for that gem.
require "plock/compat/mongo_locking"
