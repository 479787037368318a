# frozen_string_literal: true

module Plock
  module Metrics
    # Passes the state of the stores' connection pools on to an adapter.
    #
    # @api private
    class Pools
      STATES = %i[used idle].freeze
      EMPTY = PoolStatus.new(0, 0, 0, 0, 0).freeze
      private_constant :STATES, :EMPTY

      # @param adapter [#count, #set]
      # @param stores [Hash{String => Locking}, Array<Locking>, nil] nil: the default store, once
      #   it is in use
      def initialize(adapter, stores)
        @adapter = adapter
        @stores = stores.is_a?(Array) ? stores.group_by { |store| name_of(store) } : stores
        @told = {}
      end

      # Passes changed values on to the adapter, if the adapter can record them yet.
      def sample
        return if @adapter.respond_to?(:ready?) && !@adapter.ready?

        statuses.each do |name, status|
          before = @told[name]
          next if before == status

          tell(name, before, status)
          @told[name] = status
        end
      end

      # Sets the gauges to zero. This is called in a forked child, which has no connections yet, and
      # when recording stops.
      def zero
        @told.each { |name, before| tell(name, before, EMPTY) }
        @told = {}
      end

      private

      def statuses
        (@stores || by_default).each_with_object({}) do |(name, stores), found|
          all = Array(stores).filter_map(&:pool_status)
          found[name] = sum(all) if all.any?
        end
      end

      def sum(statuses)
        return statuses.first if statuses.size == 1

        PoolStatus.new(*statuses.map(&:to_a).transpose.map(&:sum))
      end

      # Looks up the default store each time, because it may be replaced.
      def by_default
        store = Plock.open_store or return {}
        return @default if @default&.each_value&.first.equal?(store)

        @default = { name_of(store) => store }
      end

      # @return [String] the value of the label `store`, without a password
      def name_of(store) = store.respond_to?(:url) ? store.url : store.class.name

      def tell(name, before, status)
        labels = { store: name }
        STATES.each do |state|
          next if before && before[state] == status[state]

          @adapter.set(:"connection.count", { **labels, state: state.to_s }, status[state])
        end
        if before&.size != status.size
          @adapter.set(:"connection.max", labels, status.size)
        end
        if before&.waiting != status.waiting
          @adapter.set(:"connection.pending_requests", labels, status.waiting)
        end
        more = status.waits - (before ? before.waits : 0)
        @adapter.count(:"connection.waits", labels, more) if more.positive?
      end
    end
  end
end
