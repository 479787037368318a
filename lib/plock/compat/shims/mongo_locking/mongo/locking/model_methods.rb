# frozen_string_literal: true

# For code that requires mongo/locking/model_methods: plock stands in for that gem.
require "plock/compat/mongo_locking"
