# frozen_string_literal: true

module Plock
  class ClientAddress
    # A Moneta store as a chain of proxies around an adapter. plock bypasses the proxies. So it can
    # use the store only if every proxy leaves the key unchanged, and it must write values in the
    # same way as the proxies.
    #
    # @api private
    class MonetaChain
      # Proxies that change neither key nor value.
      TRANSPARENT = %w[Moneta::Lock Moneta::Logger].freeze

      # Matches the transformers that plock can bypass. Moneta names the class of a transformer
      # after its work. plock can bypass MarshalKey, because Moneta does not marshal keys that are
      # Strings.
      TRANSFORMER =
        /\AMoneta::Transformer::(?:(?:Marshal)?(?:Prefix)?Key)?(?<marshal>MarshalValue)?\z/

      # The most proxies to follow. No real chain has more, but a circular chain has no end.
      DEPTH = 32

      private_constant :TRANSPARENT, :TRANSFORMER, :DEPTH

      # @return [Object] the adapter at the bottom
      attr_reader :adapter

      # @param store [Object] a Moneta store, or anything with an `adapter`
      def initialize(store)
        @proxies = []
        @adapter = store
        while @adapter.respond_to?(:adapter) && (inner = @adapter.adapter) &&
              !inner.equal?(@adapter)
          @proxies << @adapter
          @adapter = inner
          break if @proxies.size == DEPTH
        end
      end

      # @return [Boolean] is the adapter Moneta's own for Redis?
      def redis? = @adapter.class.name == "Moneta::Adapters::Redis"

      # @return [Symbol, nil] how values are written: `:plain` or `:marshal`; nil: a proxy may
      #   change the keys, or writes values in some other way
      def encoding
        values = @proxies.map { |proxy| value_encoding(proxy) }
        return if values.include?(nil) || values.count(:marshal) > 1

        values.include?(:marshal) ? :marshal : :plain
      end

      private

      def value_encoding(proxy)
        name = proxy.class.name
        return :plain if TRANSPARENT.include?(name)

        match = TRANSFORMER.match(name) or return
        return unless proxy.instance_variable_get(:@prefix).to_s.empty?

        match[:marshal] ? :marshal : :plain
      end
    end
  end
end
