# frozen_string_literal: true

require_relative "plock/version"
require_relative "plock/errors"
require_relative "plock/extension"
require_relative "plock/daemon"
require_relative "plock/default_store"
require_relative "plock/interrupts"
require_relative "plock/monitor"
require_relative "plock/store"

# Leases on resources that threads, processes and machines share. Several APIs use one engine,
# which is written in C.
#
# * {Plock.acquire} and similar methods hold keys of the default store, which {Plock.configure}
#   describes: see {Plock::Locking}.
# * {Plock::Store} is a place for locks, such as a Redis server, with its pool of connections.
# * {Plock::Lease} is a hold on one key, with a fence that grows from lease to lease.
# * {Plock::Semaphore} and {Plock::ReadWriteLock} are keys that several callers can hold at
#   the same time. {Plock::Monitor} is a key that its holder can enter again.
# * {Plock::Testing} has a store in memory, with a clock that tests can move.
# * {Parse::Lock} (`require "parse/lock"`) is an API for applications that use Parse.
#
# @!method self.digest(message, secret = nil)
#   @param message [String] only its bytes count, not its encoding
#   @param secret [String, nil]
#   @return [String] 64 lower-case hexadecimal digits: HMAC-SHA256 with a secret, plain SHA-256
#     without
#   @example
#     Plock.digest("") # => "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#
# @!method self.store_key(prefix, key, secret = nil)
#   @param prefix [String]
#   @param key [String]
#   @param secret [String, nil]
#   @return [String] the prefix followed by {digest} of the key, in one allocation. If the prefix
#     ends with an opening brace, a closing brace follows the first 8 digits of the digest. The
#     part in braces is a hash tag for Redis Cluster.
#
# @!method self.token
#   @return [String] a new owner token: a version 4 UUID from the system's random source, lower
#     case, 36 bytes
module Plock
  extend DefaultStore

  autoload :Guard, File.expand_path("plock/jobs/guard", __dir__)
  autoload :Logs, File.expand_path("plock/logs", __dir__)
  autoload :Testing, File.expand_path("plock/testing", __dir__)
end

Plock::Logs.configure(nil) if ENV[Plock::Configuration::LOG_VARIABLE]

require_relative "plock/rails/railtie" if defined?(Rails::Railtie)
