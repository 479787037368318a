# frozen_string_literal: true

module Plock
  # The root of everything that plock raises about locks and stores. Wrong arguments to a method are
  # an ArgumentError or a TypeError as everywhere in Ruby.
  #
  # No message, and no other part of an error, ever holds a password or a secret.
  #
  # @example
  #   begin
  #     store.lock_acquire(key, owner, 3)
  #   rescue Plock::UnavailableError => e
  #     e.code    # => :connect
  #     e.message # => what happened, and where
  #   end
  class Error < StandardError
    # The engine's name for what happened: more exact than the class, and as stable.
    #
    # @return [Symbol, nil] `:refused`, `:readonly`, `:wrongpass` …; nil when nothing more is known
    attr_reader :code

    # @param message [String, nil]
    # @param code [Symbol, nil]
    def initialize(message = nil, code: nil)
      super(message)
      @code = code || default_code
    end

    private

    # @return [Symbol, nil] the code of an error that is raised without one
    def default_code = nil
  end

  # Raised when a lease could not be had within the patience given: somebody else holds it, or the
  # store could not be asked all that time. Try again later, or wait longer.
  class TimeoutError < Error
    # @return [Error, nil] how the last attempt failed in the store; nil where the store said that
    #   somebody holds it
    attr_reader :last_error

    # @return [Status, nil] who held it when patience ended, and who else waited; nil where that
    #   could not be learnt in time
    attr_reader :status

    # @param message [String, nil]
    # @param code [Symbol, nil]
    # @param status [Status, nil]
    def initialize(message = nil, code: nil, status: nil)
      super(message, code: code)
      @status = status
    end
  end

  # Raised when the store cannot be reached or cannot serve at the moment: refused, silent, loading,
  # a read-only replica, out of memory. It may pass by itself; try again.
  class UnavailableError < Error; end

  # Raised when a local store has no room for another key: as many are held or waited for as it was
  # made for. Keys that are freed make room; a store of another file can be made with more.
  class StoreFullError < UnavailableError; end

  # Raised when a lease turned out not to be ours any more: its time ran out, or somebody took the
  # lock away. Whatever was done since may have been done twice; stop, and check.
  class LeaseLost < Error
    # @return [Lease, nil] the one that was lost
    attr_reader :lease

    # @param message [String, nil]
    # @param code [Symbol, nil]
    # @param lease [Lease, nil]
    def initialize(message = nil, code: nil, lease: nil)
      super(message, code: code)
      @lease = lease
    end
  end

  # Raised when the store does not believe who we are, or we do not believe who it is: wrong
  # password, no password where one is demanded, a certificate that cannot be verified. Correct the
  # credentials or the trusted certificates.
  class AuthenticationError < Error; end

  # Raised when the store knows us but does not allow what a lock needs. The message names the
  # commands that the user lacks.
  class PermissionError < Error
    private

    def default_code = :permission
  end

  # Raised when the answer is not one that the protocol allows. Most often something other than the
  # store listens there.
  class ProtocolError < Error; end

  # Raised when a store is described wrongly: a bad URL, an option out of its range, a file that
  # cannot be read. Trying again does not help.
  class ConfigurationError < Error
    private

    def default_code = :bad_config
  end

  # Raised when the store, or the way in which it is set up, is one that plock cannot use correctly.
  # The message names what it is. Nothing weaker is used in its place.
  class UnsupportedError < Error
    private

    def default_code = :unsupported
  end
end
