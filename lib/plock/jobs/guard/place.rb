# frozen_string_literal: true

require_relative "../../default_store"
require_relative "../../locking"

module Plock
  module Guard
    # The store of a guard's keys: the store that `guard_with store:` sets, or the default store. A
    # URL is opened, and a callable is called, when the first key is needed.
    #
    # @api private
    class Place
      @opened = {}
      @opening = BriefMutex.new

      class << self
        # Guards that name the same URL share one store.
        def at(url)
          @opening.hold { @opened[url] ||= Plock.open_at(url) }
        end

        def reset
          @opening.synchronize { @opened = {} }
        end
      end

      # @param source [Locking, String, #call, nil] nil means the default store
      def initialize(source)
        @source = check(source)
        @lock = Mutex.new
      end

      # @return [Locking, Plock] the module Plock stands for the default store
      def store
        case @source
        when nil then Plock
        when Locking then @source
        when String then Place.at(@source)
        else @called || @lock.synchronize { @called ||= call }
        end
      end

      private

      def check(source)
        return source if source.nil? || Locking === source || source.respond_to?(:call)
        return source.dup.freeze if source.is_a?(String) && !source.empty?

        raise ArgumentError, "store: must be a store, a URL, or a callable that returns a " \
                             "store (got #{source.inspect}): leave it out for the default store"
      end

      def call
        store = @source.call
        return store if Locking === store

        raise ConfigurationError,
              "the callable store: of a guard must return an opened store (got #{store.class})"
      end
    end
  end
end
