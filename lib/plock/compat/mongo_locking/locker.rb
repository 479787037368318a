# frozen_string_literal: true

require_relative "exceptions"
require_relative "name"
require_relative "path"
require_relative "tenures"

module Mongo
  module Locking
    # How the instances of one class are locked: as roots, each by its key within a scope, or
    # through their parents.
    class Locker
      # The options of a lock and of {Locking.configure}, with their defaults. The intervals and
      # the lifetime are in seconds.
      DEFAULT_OPTIONS = {
        max_retries: 5, first_retry_interval: 0.2, max_retry_interval: 5, max_lifetime: 600
      }.freeze

      # The names of the options.
      OPTIONS = DEFAULT_OPTIONS.keys.freeze

      LIFETIMES =
        (::Plock::Locking::Arguments::TTL_MIN..::Plock::Locking::Arguments::SPAN_MAX).freeze
      private_constant :LIFETIMES

      class << self
        # @!visibility private

        # @return [Locker]
        # @raise [Exceptions::ArgumentError]
        def root(class_name, key: nil, scope: nil, **options)
          key ||= :id
          scope ||= class_name
          bad("locker key must be a Proc or Symbol") unless [::Proc, ::Symbol].include?(key.class)
          unless [::Proc, ::Symbol, ::String].include?(scope.class)
            bad("locker scope must be a Proc, Symbol or String")
          end

          new(
            { key: key, scope: scope, parent: nil },
            known(options, "#{class_name}.lockable!")
          )
        end

        # @return [Locker]
        # @raise [Exceptions::ArgumentError]
        def child(class_name, parent:, **options)
          unless [::Proc, ::Symbol].include?(parent.class)
            bad("parent reference must be a Proc or Symbol")
          end

          new(
            { key: nil, scope: nil, parent: parent }, known(options, "#{class_name}.locked_by!")
          )
        end

        # @return [Hash] the options
        # @raise [Exceptions::ArgumentError]
        def check(options)
          options.each do |name, value|
            unless value.is_a?(::Numeric) && value.real? && value >= 0
              bad("#{name} must be a number, 0 or more (got #{value.inspect})")
            end
            next if name != :max_lifetime || LIFETIMES.cover?(value)

            bad("#{name} must be from #{LIFETIMES.begin} to #{LIFETIMES.end} seconds " \
                "(got #{value.inspect})")
          end
        end

        # Locks the object's root.
        #
        # @return [Object] the block's value
        def lock(from, options, &block)
          options = known(options, "#{from.class.name}#lock")
          root = Path.root_of(from)
          locker = root.class.locker
          Tenures.hold(locker.name_of(root), Locking.options.merge(locker.options, options), &block)
        end

        # @return [Boolean]
        def locked?(from)
          root = Path.root_of(from)
          Tenures.held?(root.class.locker.name_of(root))
        end

        private

        # Removes unknown options with a warning, because the gem accepts and ignores them. Checks
        # the others.
        def known(options, method)
          unknown = options.keys - OPTIONS
          return check(options) if unknown.empty?

          names = unknown.map(&:inspect).join(", ")
          ::Plock::Log.warn(
            Locking.logger,
            "#{method} ignores #{names}: the options that it knows are " \
              "#{OPTIONS.map(&:inspect).join(", ")}"
          )
          check(options.slice(*OPTIONS))
        end

        def bad(message)
          raise Exceptions::ArgumentError, message
        end
      end

      # @return [Hash{Symbol => Object}] key, scope, parent
      attr_reader :config

      # @return [Symbol, Proc, nil] how to find an instance's parent; nil if the instances are
      #   roots
      attr_reader :parent

      # @return [Hash{Symbol => Numeric}] the options that the class sets itself; all others are
      #   those of {Locking.configure}
      attr_reader :options

      # @api private
      def initialize(config, options)
        @config = config.freeze
        @parent = config[:parent]
        @options = options.freeze
        freeze
      end

      # @return [Boolean]
      def is_root? = @parent.nil?

      # @param lockable [Object]
      # @return [Object, nil] the object's parent; nil if the object is a root
      # @raise [Exceptions::InvalidConfig] the class does not say how to find the parent
      def parent_for(lockable)
        resolve(:parent, lockable) unless is_root?
      end

      # @param lockable [Object]
      # @return [String]
      # @raise [Exceptions::InvalidConfig] the class is not a root
      def key_for(lockable) = resolve(:key, lockable).to_s

      # @param lockable [Object]
      # @return [String]
      # @raise [Exceptions::InvalidConfig] the class is not a root
      def scope_for(lockable)
        case scope = @config[:scope]
        when ::Proc then scope.call(lockable).to_s
        when ::Symbol then scope.to_s
        when ::String then scope
        else raise InvalidConfig, "unknown scope type #{scope.inspect}"
        end
      end

      # @param from [Object]
      # @return [Object] the root, which is locked instead of `from`
      # @raise [Exceptions::CircularLock, Exceptions::InvalidConfig] there is no root
      def root_for(from) = Path.root_of(from)

      # @api private
      def name_of(lockable) = Name.new(scope_for(lockable), key_for(lockable))

      private

      def resolve(what, lockable)
        case how = @config[what]
        when ::Symbol then lockable.__send__(how)
        when ::Proc then how.call(lockable)
        else raise InvalidConfig, "unknown #{what} type #{how.inspect}"
        end
      end
    end
  end
end
