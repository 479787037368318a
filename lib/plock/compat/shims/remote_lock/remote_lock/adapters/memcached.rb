# frozen_string_literal: true

# For code that requires remote_lock/adapters/memcached: plock stands in for that gem.
require "plock/compat/remote_lock"
