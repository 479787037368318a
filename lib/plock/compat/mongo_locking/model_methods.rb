# frozen_string_literal: true

require_relative "exceptions"
require_relative "locker"

module Mongo
  module Locking
    # What instances of a class that includes {Locking} can do.
    module ModelMethods
      # What the class itself can do, and all that descend from it.
      module ClassMethods
        # Its instances are roots.
        #
        # @param opts [Hash{Symbol => Object}] besides, those of {Locking.configure} that say how to
        #   wait
        # @option opts [Symbol, Proc] :key (:id) a method of the instance, or what is called with it
        # @option opts [String, Symbol, Proc] :scope (the class's name) a name, or what is called
        #   with the instance An option of another name is ignored, with a warning.
        #
        # @return [self]
        # @raise [Exceptions::ArgumentError]
        def lockable!(opts = {})
          @locker = Locker.root(name, **opts)
          self
        end

        # Who locks an instance locks what it belongs to.
        #
        # @overload locked_by!(association)
        #   @param association [Symbol] a method of the instance
        # @overload locked_by!(parent:)
        #   @param parent [Symbol, Proc]
        # @overload locked_by!
        #   @yieldparam instance [Object]
        #   @yieldreturn [Object] what it belongs to
        # @return [self]
        # @raise [Exceptions::ArgumentError]
        def locked_by!(*args, &parent)
          opts = args.last.is_a?(::Hash) ? args.pop : {}
          @locker = Locker.child(name, **opts, parent: opts[:parent] || parent || args.first)
          self
        end

        # @return [Locker, nil]
        def locker
          @locker || (superclass.locker if superclass.respond_to?(:locker))
        end
      end

      # Holds the lock of the root while the block runs. Who has it already just runs the block; it
      # belongs to the fiber.
      #
      # @param opts [Hash{Symbol => Numeric}] those of {Locking.configure} that say how to wait
      # @yield with the lock
      # @return [Object] the block's value
      # @raise [Exceptions::ArgumentError] no block, or an option that cannot be right
      # @raise [Exceptions::LockTimeout] somebody else had it until patience ended
      # @raise [Exceptions::LockFailure] the store failed, or the lock was lost that this fiber had
      # @raise [Exceptions::CircularLock, Exceptions::InvalidConfig] there is no root
      def lock(opts = {}, &block)
        raise Exceptions::ArgumentError, "#{self.class.name}#lock requires a block" unless block

        Locker.lock(self, opts, &block)
      rescue ::StandardError
        Locking.error("#{self.class.name}#lock failed")
        raise
      end

      # @return [Boolean] does this fiber hold the lock of the root?
      # @raise [Exceptions::CircularLock, Exceptions::InvalidConfig] there is no root
      def have_lock?
        Locker.locked?(self)
      end
    end
  end
end
