# frozen_string_literal: true

require "plock/metrics"

module Support
  # Helpers for the examples of Plock::Metrics.
  module Metrics
    # Keeps all metrics that it receives in memory.
    class Adapter
      attr_reader :counters, :gauges, :histograms

      def initialize
        @counters = Hash.new(0)
        @gauges = {}
        @histograms = Hash.new { |all, series| all[series] = [] }
      end

      def count(name, labels, by) = @counters[[name, *labels.values]] += by

      def observe(name, labels, seconds) = @histograms[[name, *labels.values]] << seconds

      def set(name, labels, value)
        @gauges[[name, *labels.values]] = value
      end
    end

    def adapter = @adapter ||= Adapter.new

    def recording(**options)
      discard(Plock::Metrics.start(adapter, **options), :stop)
    end

    def counter(name, label = "", kind = "lock", *more) =
      adapter.counters.fetch([name, label, kind, *more], 0)

    def gauge(name, label = "", kind = "lock") = adapter.gauges.fetch([name, label, kind], 0)

    def histogram(name, label = "", kind = "lock") =
      adapter.histograms.fetch([name, label, kind], [])
  end
end
