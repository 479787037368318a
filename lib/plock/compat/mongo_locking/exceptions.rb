# frozen_string_literal: true

module Mongo
  module Locking
    # The errors of the locks.
    module Exceptions
      # The superclass. `rescue Error` rescues {ArgumentError}, too, whose superclass is Ruby's.
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

      # Raised when the configuration of a class, or of Mongo::Locking, leaves nothing to lock.
      class InvalidConfig < Error; end

      # Raised when an object is its own ancestor. The message names all objects of the circle.
      class CircularLock < Error; end

      # Raised when another caller held the lock at the last try. The block has not run.
      class LockTimeout < Error; end

      # Raised when the store failed, or this fiber had lost the lock. The cause says more. The
      # block has not run.
      class LockFailure < Error; end
    end
  end
end
