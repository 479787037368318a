# frozen_string_literal: true

module Plock
  # The superclass of all errors that plock raises about locks and stores. For wrong arguments,
  # plock raises an ArgumentError or a TypeError, as Ruby does.
  #
  # Neither the message nor any other part of an error ever contains a password or a secret.
  #
  # @example
  #   begin
  #     store.lock_acquire(key, owner, 3)
  #   rescue Plock::UnavailableError => e
  #     e.code    # => :connect
  #     e.message # => what happened, and where
  #   end
  class Error < StandardError
    # The engine's name for the failure. It is more specific than the class of the error, and just
    # as stable.
    #
    # @return [Symbol, nil] `:refused`, `:readonly`, `:wrongpass` …; nil when nothing more is known
    attr_reader :code

    # @param message [String, nil]
    # @param code [Symbol, nil]
    def initialize(message = nil, code: nil)
      super(message)
      @code = code || default_code
    end

    # @api private
    # @return [Boolean] did the server answer, but with an error that concerns this request only?
    def answered? = %i[server server_error].include?(code)

    private

    # @return [Symbol, nil] the code of an error that is raised without one
    def default_code = nil
  end

  # Raised when a lease could not be acquired within `wait:`. Either another holder has the key,
  # or the store did not answer in that time. Try again later, or wait longer.
  class TimeoutError < Error
    # @return [Error, nil] the error with which the last attempt failed; nil if the store answered
    #   that the key was held
    attr_reader :last_error

    # @return [Status, nil] the holders and waiters when `wait:` ended; nil if the store did not
    #   answer in time
    attr_reader :status

    # @param message [String, nil]
    # @param code [Symbol, nil]
    # @param status [Status, nil]
    def initialize(message = nil, code: nil, status: nil)
      super(message, code: code)
      @status = status
    end
  end

  # Raised when the store cannot be reached or cannot serve at the moment. For example, it refuses
  # connections, does not answer, is loading its data, is a read-only replica, or is out of memory.
  # The condition may be temporary; try again.
  class UnavailableError < Error; end

  # Raised when a local store has no room for another key. It already has as many held or awaited
  # keys as it was created for. A key that is released makes room. A new store in another file can
  # be larger.
  class StoreFullError < UnavailableError; end

  # Raised when a lease was lost, because it expired or the lock was broken. Another holder may
  # have done the same work since the loss. Stop, and check.
  class LeaseLost < Error
    # @return [Lease, nil] the lease that was lost
    attr_reader :lease

    # @param message [String, nil]
    # @param code [Symbol, nil]
    # @param lease [Lease, nil]
    def initialize(message = nil, code: nil, lease: nil)
      super(message, code: code)
      @lease = lease
    end
  end

  # Raised when the client or the server cannot be authenticated: a wrong or missing password, or a
  # certificate that cannot be verified. Correct the credentials or the trusted certificates.
  class AuthenticationError < Error; end

  # Raised when the user on the server lacks a permission that locks need. On Redis, the message
  # names the commands that the user lacks.
  class PermissionError < Error
    private

    def default_code = :permission
  end

  # Raised when an answer violates the protocol. Usually, a different kind of server is listening
  # at that address.
  class ProtocolError < Error; end

  # Raised when the configuration of a store is invalid: a bad URL, an option out of its range, a
  # file that cannot be read. Trying again does not help.
  class ConfigurationError < Error
    private

    def default_code = :bad_config
  end

  # Raised when plock cannot work correctly with the store, or with the store's configuration. The
  # message names the reason. plock never falls back to a weaker guarantee.
  class UnsupportedError < Error
    private

    def default_code = :unsupported
  end
end
