# frozen_string_literal: true

require "plock"
require_relative "stand_in"

::Plock::Compat::StandIn.claim("mongo-locking", "Mongo::Locking")

require_relative "mongo_locking/exceptions"
require_relative "mongo_locking/held"
require_relative "mongo_locking/locker"
require_relative "mongo_locking/model_methods"
require_relative "mongo_locking/name"

# The module of MongoDB's driver.
module Mongo
  # The API of the gem `mongo-locking` on plock's engine. Require `plock/compat/mongo_locking`
  # instead of that gem. An object can have a parent. A caller that locks an object locks its
  # root: the object at the end of the chain of parents.
  #
  # Locks are leases in a store of plock (`store:`), or documents of a Mongo::Collection
  # (`collection:`), as in the gem. plock renews a lock until its block ends.
  #
  # @example
  #   Mongo::Locking.configure(store: "redis://localhost:6379/1", logger: Rails.logger)
  #
  #   class Order
  #     include Mongo::Locking
  #     lockable!
  #   end
  #
  #   class OrderItem
  #     include Mongo::Locking
  #     locked_by! :order
  #   end
  #
  #   order.lock { order.items.each { |item| item.lock { item.ship } } }
  module Locking
    autoload :CollectionStore, ::File.expand_path("mongo_locking/collection_store", __dir__)

    # See {Exceptions::InvalidConfig}.
    InvalidConfig = Exceptions::InvalidConfig
    # See {Exceptions::CircularLock}.
    CircularLock = Exceptions::CircularLock
    # See {Exceptions::LockTimeout}.
    LockTimeout = Exceptions::LockTimeout
    # See {Exceptions::LockFailure}.
    LockFailure = Exceptions::LockFailure

    @mutex = ::Plock::BriefMutex.new
    @options = {}

    class << self
      # @return [Logger, nil] the logger for locks, releases and failures
      attr_accessor :logger

      # The defaults for classes and calls that do not set an option.
      Locker::OPTIONS.each do |name|
        define_method(name) { @options.fetch(name, Locker::DEFAULT_OPTIONS[name]) }
        define_method(:"#{name}=") do |value|
          @options = @options.merge(Locker.check(name => value))
        end
      end

      # @param klass [Class] receives `lockable!` and `locked_by!`; its instances receive `lock`
      #   and `have_lock?`
      def included(klass)
        super
        klass.include(ModelMethods)
        klass.extend(ModelMethods::ClassMethods)
      end

      # Sets the given options and keeps the others.
      #
      # @param opts [Hash{Symbol => Object}]
      # @option opts [Mongo::Collection, Proc] :collection the collection of the documents; a Proc
      #   is called at the first lock
      # @option opts [Plock::Locking, String, Proc, Object] :store a store of plock, or an
      #   argument of Plock::Store.open, to use instead of a collection
      # @option opts [Logger] :logger
      # @option opts [Numeric] :max_retries (5) number of tries, 0 or more
      # @option opts [Numeric] :first_retry_interval (0.2) seconds, 0 or more, from the first try
      #   to the second; each pause is twice as long as the previous pause
      # @option opts [Numeric] :max_retry_interval (5) longest pause in seconds, 0 or more
      # @option opts [Numeric] :max_lifetime (600) seconds, up to 31_622_400, after which the lock
      #   of a process that died is free
      # @return [self]
      # @raise [NoMethodError] an unknown option
      # @raise [Exceptions::ArgumentError] an invalid value
      def configure(opts = {})
        opts.each { |name, value| public_send("#{name}=", value) }
        self
      end

      # @return [Mongo::Collection, nil] the collection, or the result of the Proc
      def collection
        @collection = @collection.call if @collection.is_a?(::Proc)
        @collection
      end

      # @param collection [Mongo::Collection, Proc, nil]
      def collection=(collection)
        @mutex.hold do
          @collection = collection
          @store = @backing = nil
        end
      end

      # @param store [Plock::Locking, String, Proc, Object, nil]
      def store=(store)
        @mutex.hold do
          @store = store
          @collection = @backing = nil
        end
      end

      # The store is opened at the first lock.
      #
      # @return [Plock::Locking] the store of the locks
      # @raise [InvalidConfig] neither a collection nor a store is configured, or the configured
      #   object is not a collection
      def store
        @backing || @mutex.hold { @backing ||= open }
      end

      # Creates the collection's indexes now. Otherwise the first lock creates them. A store of
      # plock needs no indexes.
      #
      # @return [nil]
      # @raise [InvalidConfig] as for {.store}
      # @raise [Plock::Error] the collection failed
      def ensure_indices
        store.ensure_indices if store.respond_to?(:ensure_indices)
        nil
      end

      # @return [Hash{Symbol => Numeric}]
      def options = Locker::DEFAULT_OPTIONS.merge(@options)

      # Lists the locks that are held. In a collection, these include the locks of processes that
      # run the gem.
      #
      # @return [Array<Held>]
      # @raise [Plock::UnsupportedError] the store cannot list its locks
      # @raise [Plock::Error] the store failed
      def locks
        store.each_lock.filter_map { |status| Held.of(status) }
      end

      # Takes a lock away from its holder. A holder that uses plock notices the loss.
      #
      # @overload break(held)
      #   @param held [Held]
      # @overload break(scope, key)
      #   @param scope [#to_s]
      #   @param key [#to_s]
      # @return [Boolean] whether the lock was held
      # @raise [Plock::Error] the store failed
      def break(scope, key = nil)
        store.break(scope.is_a?(Held) ? scope.status : Name.new(scope.to_s, key.to_s).store_key)
      end

      %i[debug info warn error fatal].each do |level|
        define_method(level) { |*message, &block| logger&.public_send(level, *message, &block) }
      end

      # @api private
      # Finds the classes in {Exceptions} that are not constants of this module, such as
      # {Exceptions::ArgumentError}. If `ArgumentError` were a constant of this module, a class
      # that includes the module would find it instead of Ruby's class.
      def const_missing(name)
        Exceptions.const_defined?(name, false) ? Exceptions.const_get(name, false) : super
      end

      private

      def open
        return CollectionStore.new(collection, logger: logger) if collection

        source = @store.is_a?(::Proc) ? @store.call : @store
        raise InvalidConfig, "neither a collection nor a store is configured" if source.nil?

        source.is_a?(::Plock::Locking) ? source : ::Plock::Store.open(source)
      end
    end
  end
end

::Plock::Compat::StandIn.open("mongo_locking")
