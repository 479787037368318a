# frozen_string_literal: true

require_relative "exceptions"
require_relative "locker"

module Mongo
  module Locking
    # The methods of instances of a class that includes {Locking}.
    module ModelMethods
      # The methods of the class and its subclasses.
      module ClassMethods
        # Declares that the instances are roots.
        #
        # An unknown option is ignored, with a warning.
        #
        # @param opts [Hash{Symbol => Object}] `:key`, `:scope`, and the tries, intervals and
        #   lifetime of {Locking.configure}
        # @option opts [Symbol, Proc] :key (:id) a method of the instance, or a Proc that takes the
        #   instance
        # @option opts [String, Symbol, Proc] :scope (the class's name) a name, or a Proc that takes
        #   the instance
        # @return [self]
        # @raise [Exceptions::ArgumentError] an invalid value
        def lockable!(opts = {})
          @locker = Locker.root(name, **opts)
          self
        end

        # Declares that the instances are locked through their parents.
        #
        # @overload locked_by!(association)
        #   @param association [Symbol] a method of the instance
        # @overload locked_by!(parent:)
        #   @param parent [Symbol, Proc]
        # @overload locked_by!
        #   @yieldparam instance [Object]
        #   @yieldreturn [Object] its parent
        # @return [self]
        # @raise [Exceptions::ArgumentError] no parent, or an invalid value
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

      # Holds the lock of the root while the block runs. The lock belongs to the fiber. If this
      # fiber already holds it, the method only runs the block.
      #
      # An unknown option is ignored, with a warning.
      #
      # @param opts [Hash{Symbol => Numeric}] tries, intervals and lifetime, as for
      #   {Locking.configure}
      # @yield with the lock
      # @return [Object] the block's value
      # @raise [Exceptions::ArgumentError] no block, or an invalid value
      # @raise [Exceptions::LockTimeout] another caller held the lock at the last try
      # @raise [Exceptions::LockFailure] the store failed, or this fiber had lost the lock
      # @raise [Exceptions::CircularLock, Exceptions::InvalidConfig] there is no root
      def lock(opts = {}, &block)
        raise Exceptions::ArgumentError, "#{self.class.name}#lock requires a block" unless block

        Locker.lock(self, opts, &block)
      rescue ::StandardError
        Locking.error("#{self.class.name}#lock failed")
        raise
      end

      # @return [Boolean] whether this fiber holds the lock of the root
      # @raise [Exceptions::CircularLock, Exceptions::InvalidConfig] there is no root
      def have_lock? = Locker.locked?(self)
    end
  end
end
