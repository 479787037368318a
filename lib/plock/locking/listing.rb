# frozen_string_literal: true

module Plock
  module Locking
    # Lists the keys of a store in steps, so that no request to the server takes long.
    #
    # A store has `keys_after(prefix, cursor)`. The cursor of the first step is nil. The method
    # returns store keys that begin with the prefix, and the cursor of the next step, or nil after
    # the last step. A step may return no key, even if it is not the last. A key that is held
    # throughout all steps is returned at least once.
    #
    # @api private
    module Listing
      # Makes one step. The step does not check whether the keys are held, so some may be free.
      #
      # @param cursor [Object, nil] the cursor that the previous step returned; nil: the first
      #   step
      # @param prefix [String] of the store keys
      # @return [Array(Array<String>, Object)] store keys, and the cursor of the next step or nil
      # @raise [UnsupportedError] the store cannot list its keys
      def list_keys(cursor = nil, prefix: config.prefix) = keys_after(prefix, cursor)

      # Like {Locking#each_lock}, but stops when the time is over, even if there are very many
      # keys, or new keys keep appearing.
      #
      # @param seconds [Float, nil] nil: no limit
      # @return [Boolean] were all keys yielded?
      def each_lock_within(seconds, &block)
        agree unless @agreed
        each_held(seconds && (Clock.now + seconds), &block)
      end

      # Asks for a key's state. It skips the comparison of secrets, which may write a fingerprint.
      #
      # @param key [String, Symbol, nil] as callers name it
      def look_at(key, store_key)
        people = examine(store_key, Kind.of(store_key).shared?)
        Status.new(key, store_key, people, node_of(store_key))
      end

      private

      # Only a store on a cluster has several nodes.
      def node_of(_store_key) = nil

      # @param ends [Float, nil] when to stop, on {Clock}; nil: no limit. Even if this moment has
      #   passed, the method yields one key, or completes one step that returns no new key
      # @yieldparam key [String] a store key; a key that is held throughout is yielded exactly
      #   once
      # @return [Boolean] were all keys yielded?
      def each_key(prefix, ends)
        seen = {}
        cursor = nil
        loop do
          keys, cursor = keys_after(prefix, cursor)
          keys.each do |key|
            next if seen[key]

            seen[key] = true
            yield key
            return false if ends && Clock.now >= ends
          end
          return true unless cursor
          return false if ends && Clock.now >= ends
        end
      end

      def each_held(ends = nil)
        return enum_for(:each_held, ends) unless block_given?

        each_key(config.prefix, ends) do |store_key|
          next unless config.own?(store_key)

          status = readable(store_key)
          yield status if status&.held?
        end
      end

      # @return [Status, nil] nil: another program has written something else under this key
      def readable(store_key)
        look_at(nil, store_key)
      rescue Error => e
        raise unless e.answered?

        Log.warn(config.logger, "#{store_key} cannot be read, so it is left out: #{e.message}")
        nil
      end
    end
  end
end
