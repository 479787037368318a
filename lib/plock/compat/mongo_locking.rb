# frozen_string_literal: true

require "plock"
require_relative "stand_in"

::Plock::Compat::StandIn.claim("mongo-locking", "Mongo::Locking")

require_relative "mongo_locking/exceptions"
require_relative "mongo_locking/held"
require_relative "mongo_locking/locker"
require_relative "mongo_locking/model_methods"
require_relative "mongo_locking/name"

module Mongo
  # A graph of locks between objects, as the gem `mongo-locking` has it, on plock's engine:
  # `require "plock/compat/mongo_locking"` in that gem's place. Whoever locks an object locks the
  # root that it reaches through its parents.
  #
  # Locks are leases in a store of plock's (`store:`), or documents of a Mongo::Collection
  # (`collection:`), as the gem has them. They are renewed as long as their process lives.
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

    InvalidConfig = Exceptions::InvalidConfig
    CircularLock = Exceptions::CircularLock
    LockTimeout = Exceptions::LockTimeout
    LockFailure = Exceptions::LockFailure

    @mutex = ::Mutex.new
    @options = {}

    class << self
      # @return [Logger, nil] hears of what is done, and of what goes wrong
      attr_accessor :logger

      # What counts where neither a class nor a call says anything.
      Locker::OPTIONS.each do |name|
        define_method(name) { @options.fetch(name, Locker::DEFAULT_OPTIONS[name]) }
        define_method(:"#{name}=") do |value|
          @options = @options.merge(Locker.check(name => value))
        end
      end

      # @param klass [Class] gets `lockable!` and `locked_by!`, and its instances `lock` and
      #   `have_lock?`
      def included(klass)
        super
        klass.include(ModelMethods)
        klass.extend(ModelMethods::ClassMethods)
      end

      # May be called more than once.
      #
      # @param opts [Hash{Symbol => Object}]
      # @option opts [Mongo::Collection, Proc] :collection where the documents are; a Proc is called
      #   at the first lock
      # @option opts [Plock::Locking, String, Proc, Object] :store in its place: a store of plock's,
      #   or what Plock::Store.open takes
      # @option opts [Logger] :logger
      # @option opts [Integer] :max_retries (5) tries
      # @option opts [Numeric] :first_retry_interval (0.2) seconds from the first try to the second,
      #   then twice as long each time
      # @option opts [Numeric] :max_retry_interval (5) seconds, at most
      # @option opts [Numeric] :max_lifetime (600) seconds after which a lock is free whose process
      #   died
      # @return [self]
      # @raise [NoMethodError] another option
      # @raise [Exceptions::ArgumentError] a value that cannot be right
      def configure(opts = {})
        opts.each { |name, value| public_send("#{name}=", value) }
        self
      end

      # @return [Mongo::Collection, nil] where a Proc was given, what that returned
      def collection
        @collection = @collection.call if @collection.is_a?(::Proc)
        @collection
      end

      # @param collection [Mongo::Collection, Proc, nil]
      def collection=(collection)
        @mutex.synchronize do
          @collection = collection
          @store = @backing = nil
        end
      end

      # @param store [Plock::Locking, String, Proc, Object, nil]
      def store=(store)
        @mutex.synchronize do
          @store = store
          @collection = @backing = nil
        end
      end

      # Opened at the first lock.
      #
      # @return [Plock::Locking] what locks are made in
      # @raise [InvalidConfig] neither a collection nor a store, or one that cannot be used
      def store
        @backing || @mutex.synchronize { @backing ||= open }
      end

      # @return [Hash{Symbol => Numeric}]
      def options
        Locker::DEFAULT_OPTIONS.merge(@options)
      end

      # All that are held, also by processes of the gem where they are documents.
      #
      # @return [Array<Held>]
      # @raise [Plock::UnsupportedError] the store cannot list what it has
      # @raise [Plock::Error] the store failed
      def locks
        store.each_lock.filter_map { |status| Held.of(status) }
      end

      # Takes a lock away from whoever holds it. A process of plock's learns of it.
      #
      # @overload break(held)
      #   @param held [Held]
      # @overload break(scope, key)
      #   @param scope [#to_s]
      #   @param key [#to_s]
      # @return [Boolean] did anybody hold it?
      # @raise [Plock::Error] the store failed
      def break(scope, key = nil)
        store.break(scope.is_a?(Held) ? scope.status : Name.new(scope.to_s, key.to_s).store_key)
      end

      %i[debug info warn error fatal].each do |level|
        define_method(level) { |*message, &block| logger&.public_send(level, *message, &block) }
      end

      # Names of errors that a class which includes this is not to find in the place of Ruby's.
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
