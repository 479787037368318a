# frozen_string_literal: true

module Mongo
  module Locking
    # The errors that these locks raise.
    module Exceptions
      # The superclass of the errors. `rescue Error` also rescues {ArgumentError}, although that
      # class inherits from Ruby's ArgumentError.
      class Error < ::RuntimeError
        # @return [Boolean]
        def self.===(other)
          super || (equal?(Error) && ArgumentError === other)
        end
      end

      # Raised for an invalid argument. It is both an {Error} and Ruby's ArgumentError.
      class ArgumentError < ::ArgumentError
        # @return [Boolean]
        def is_a?(kind)
          super || Error <= kind
        end
        alias kind_of? is_a?
      end

      # Raised when the configuration of a class, or of Mongo::Locking, is missing or unusable.
      class InvalidConfig < Error; end

      # Raised when an object is its own ancestor. The message names the objects of the cycle.
      class CircularLock < Error; end

      # Raised when another caller held the lock at the last try. The block has not run.
      class LockTimeout < Error; end

      # Raised when the store failed, or when this fiber had already lost the lock. If the store
      # failed, the cause says why. The block has not run.
      class LockFailure < Error; end
    end
  end
end
