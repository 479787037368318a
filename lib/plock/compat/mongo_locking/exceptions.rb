# frozen_string_literal: true

module Mongo
  module Locking
    # Everything that the locks themselves raise.
    module Exceptions
      # Their root. `rescue Error` rescues {ArgumentError}, too, whose superclass is Ruby's.
      class Error < ::RuntimeError
        # @return [Boolean]
        def self.===(other)
          super || (equal?(Error) && ArgumentError === other)
        end
      end

      # Raised for an argument that cannot be right. It is an {Error}, and Ruby's ArgumentError.
      class ArgumentError < ::ArgumentError
        # @return [Boolean]
        def is_a?(kind)
          super || Error <= kind
        end
        alias kind_of? is_a?
      end

      # Raised when a class, or Mongo::Locking, is configured so that there is nothing to lock.
      class InvalidConfig < Error; end

      # Raised when an object is its own parent's parent; the message names all that are in the
      # circle.
      class CircularLock < Error; end

      # Raised when somebody else had the lock until patience ended. The block has not run.
      class LockTimeout < Error; end

      # Raised when the store failed, or a lock was found to be lost. The cause says more; the block
      # has not run.
      class LockFailure < Error; end
    end
  end
end
