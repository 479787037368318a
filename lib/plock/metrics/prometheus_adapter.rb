# frozen_string_literal: true

require "prometheus/client"
require "prometheus/client/data_stores/direct_file_store"

module Plock
  module Metrics
    # Records in a registry of the gem prometheus-client, version 4 or later.
    #
    # @api private
    class PrometheusAdapter
      # A gauge that is brought up to date when it is read.
      class Gauge < ::Prometheus::Client::Gauge
        # @return [#call, nil] called before each reading
        attr_accessor :refresh

        def values
          refresh&.call
          super
        end
      end

      # @raise [::Prometheus::Client::Registry::AlreadyRegisteredError] a name is already
      #   registered
      def initialize(registry)
        @metrics = INSTRUMENTS.transform_values { |instrument| registry.register(make(instrument)) }
      end

      # @param recorder [Recorder] the recorder that passes values to this adapter
      def attach(recorder)
        @metrics.each_value do |metric|
          metric.refresh = recorder.method(:refresh) if metric.is_a?(Gauge)
        end
      end

      def count(name, labels, by) = @metrics[name].increment(by: by, labels: labels)

      def observe(name, labels, seconds) = @metrics[name].observe(seconds, labels: labels)

      def set(name, labels, value) = @metrics[name].set(value, labels: labels)

      private

      def make(instrument)
        options = { docstring: instrument.description, labels: instrument.labels }
        case instrument.type
        when :counter then ::Prometheus::Client::Counter.new(instrument.prometheus_name, **options)
        when :gauge
          Gauge.new(instrument.prometheus_name, store_settings: settings_of_gauge, **options)
        else
          ::Prometheus::Client::Histogram.new(
            instrument.prometheus_name, buckets: instrument.buckets, **options
          )
        end
      end

      # Makes a DirectFileStore sum up the gauges of all processes. By default it keeps a series for
      # each pid. Data stores for a single process take no settings.
      def settings_of_gauge
        in_files = ::Prometheus::Client::DataStores::DirectFileStore
        in_files === ::Prometheus::Client.config.data_store ? { aggregation: :sum } : {}
      end
    end
  end
end
