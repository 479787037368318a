# frozen_string_literal: true

require "opentelemetry-metrics-api"
# newer versions of the API define the global provider in this file, and let the SDK load it
require "opentelemetry/metrics/global" unless OpenTelemetry.respond_to?(:meter_provider)

module Plock
  module Metrics
    # Records through the metrics API of OpenTelemetry.
    #
    # @api private
    class OpenTelemetryAdapter
      def initialize(meter_provider)
        add_buckets(meter_provider)
        @meter = meter_provider.meter("plock", version: VERSION)
        @instruments = INSTRUMENTS.transform_values { |instrument| make(instrument) }
        @values = Hash.new(0)
      end

      def count(name, labels, by) = @instruments[name].add(by, attributes: labels_of(labels))

      def observe(name, labels, seconds)
        @instruments[name].record(seconds, attributes: labels_of(labels))
      end

      # Uses a counter that goes up and down, so that the values of several processes add up.
      def set(name, labels, value)
        change = value - @values[[name, labels]]
        @values[[name, labels]] = value
        @instruments[name].add(change, attributes: labels_of(labels)) unless change.zero?
      end

      private

      # Leaves out attributes without a value.
      def labels_of(labels)
        labels.each_with_object({}) do |(name, value), found|
          found[name.to_s] = value unless value.empty?
        end
      end

      # The API cannot set buckets, and the SDK's default buckets are meant for milliseconds.
      def add_buckets(provider)
        return unless provider.respond_to?(:add_view)

        INSTRUMENTS.each_value do |instrument|
          next unless instrument.buckets

          provider.add_view(
            instrument.name,
            meter_name: "plock",
            aggregation: ::OpenTelemetry::SDK::Metrics::Aggregation::ExplicitBucketHistogram.new(
              boundaries: instrument.buckets
            )
          )
        end
      end

      def make(instrument)
        creating = { gauge: :create_up_down_counter, counter: :create_counter,
                     histogram: :create_histogram }.fetch(instrument.type)
        @meter.public_send(
          creating, instrument.name, unit: instrument.unit, description: instrument.description
        )
      end
    end
  end
end
