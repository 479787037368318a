# frozen_string_literal: true

require "yabeda"

module Plock
  module Metrics
    # Records in Yabeda, in the group `plock`. Yabeda passes the values on to every monitoring
    # system whose Yabeda adapter is installed. Events before `Yabeda.configure!` are not counted.
    #
    # @api private
    class YabedaAdapter
      # @return [Recorder, nil] the recorder that passes values to this adapter
      attr_reader :recorder

      def initialize
        adapter = self
        ::Yabeda.configure do
          group :plock
          INSTRUMENTS.each_value { |instrument| YabedaAdapter.declare(self, instrument) }
          collect { adapter.recorder&.refresh }
        end
        @names = INSTRUMENTS.transform_values { |each| "plock_#{YabedaAdapter.name_of(each)}" }
      end

      # @param yabeda [Module] `self` in a block of `Yabeda.configure`
      def self.declare(yabeda, instrument)
        options = { tags: instrument.labels, comment: instrument.description }
        options[:unit] = :seconds if instrument.unit == "s"
        options[:buckets] = instrument.buckets if instrument.buckets
        options[:aggregation] = :sum if instrument.type == :gauge
        yabeda.public_send(instrument.type, name_of(instrument), **options)
      end

      # @return [Symbol] the name within the group; Yabeda's adapters add the group and the unit
      def self.name_of(instrument)
        instrument.prometheus_name.to_s.delete_prefix("plock_").delete_suffix("_seconds").to_sym
      end

      def attach(recorder)
        @recorder = recorder
      end

      # @return [Boolean] can Yabeda record values? It cannot before it is configured.
      def ready? = ::Yabeda.metrics.key?(@names[:"connection.max"])

      def count(name, labels, by) = metric(name)&.increment(labels, by: by)

      def observe(name, labels, seconds) = metric(name)&.measure(labels, seconds)

      def set(name, labels, value) = metric(name)&.set(labels, value)

      private

      # @return [::Yabeda::Metric, nil] nil: Yabeda is not configured yet
      def metric(name) = ::Yabeda.metrics[@names[name]]
    end
  end
end
