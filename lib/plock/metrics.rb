# frozen_string_literal: true

require_relative "../plock"
require_relative "metrics/instruments"
require_relative "metrics/recorder"

module Plock
  # Metrics for leases and connection pools: {INSTRUMENTS} lists them. plock itself does not
  # load this file; `require "plock/metrics"` does.
  #
  # Each metric of leases has the labels `label` and `kind`, and `failures` also has `error`.
  # `label` is the `label:` of the call. `kind` is `lock`, `semaphore`, `read_write` or `once`. Keys
  # and their digests are never labels.
  #
  # While metrics are recorded, calls with a block run in Ruby instead of C. Metrics count only
  # the leases of the main Ractor.
  #
  # @example
  #   require "plock/metrics"
  #   Plock::Metrics.prometheus
  module Metrics
    # How many values the label `label` can have, not counting `other`.
    MAX_LABELS = 100

    @lock = Mutex.new
    @adapters = {}.compare_by_identity
    @recorders = {}.compare_by_identity

    class << self
      # Records in a registry of the gem prometheus-client. Set the client's data store first, as
      # you must before you make any metric. A DirectFileStore sums up the values of all processes
      # on a host, including forked children.
      #
      # A second call for the same registry replaces the first one.
      #
      # @param registry [Prometheus::Client::Registry, nil] nil: the client's default registry
      # @param options [Hash{Symbol => Object}] as for {start}
      # @return [Recorder]
      # @raise [UnsupportedError] the gem is missing
      # @raise [ArgumentError] as for {start}
      #
      # @example
      #   Plock::Metrics.prometheus(stores: { "locks" => Plock.store })
      def prometheus(registry = nil, **options)
        needing("prometheus-client") { require_relative "metrics/prometheus_adapter" }
        registry ||= ::Prometheus::Client.registry
        start(adapter_for(registry) { PrometheusAdapter.new(registry) }, **options)
      end

      # Records in Yabeda, in the group `plock`.
      #
      # A second call replaces the first one.
      #
      # @param options [Hash{Symbol => Object}] as for {start}
      # @return [Recorder]
      # @raise [UnsupportedError] the gem is missing
      # @raise [ArgumentError] as for {start}
      #
      # @example
      #   Plock::Metrics.yabeda(label: ->(event) { event.label&.split(":")&.first })
      def yabeda(**options)
        needing("yabeda") { require_relative "metrics/yabeda_adapter" }
        start(adapter_for(::Yabeda) { YabedaAdapter.new }, **options)
      end

      # Records through OpenTelemetry. Call this after `OpenTelemetry::SDK.configure`, because the
      # buckets of the histograms are a setting of the SDK.
      #
      # A second call for the same provider replaces the first one.
      #
      # @param meter_provider [OpenTelemetry::Metrics::MeterProvider, nil] nil: the global one
      # @param options [Hash{Symbol => Object}] as for {start}
      # @return [Recorder]
      # @raise [UnsupportedError] the gem is missing
      # @raise [ArgumentError] as for {start}
      #
      # @example
      #   OpenTelemetry::SDK.configure
      #   Plock::Metrics.open_telemetry
      def open_telemetry(meter_provider: nil, **options)
        needing("opentelemetry-metrics-sdk") { require_relative "metrics/open_telemetry_adapter" }
        provider = meter_provider || ::OpenTelemetry.meter_provider
        start(adapter_for(provider) { OpenTelemetryAdapter.new(provider) }, **options)
      end

      # Records through any adapter. An adapter has three methods, which receive a name from
      # {INSTRUMENTS}, labels and a number. plock never makes two of these calls at once.
      #
      # * `count(name, labels, by)` increments a counter.
      # * `observe(name, labels, seconds)` adds a value to a histogram.
      # * `set(name, labels, value)` sets a gauge.
      #
      # If the adapter also has the method `attach(recorder)`, plock passes it the recorder. The
      # adapter can then call {Recorder#refresh} before its values are read.
      #
      # A second call for the same adapter replaces the first one.
      #
      # @param adapter [#count, #observe, #set]
      # @param stores [Hash{String => Locking}, Array<Locking>, nil] the stores whose pools are
      #   shown. The values of the label `store` are the keys of the Hash, or the URLs of the
      #   Array's stores without their passwords. nil: the default store, once it is in use
      # @param label [#call, nil] receives an {Events::Event}, and returns the value of the label
      #   `label`; nil: the event's own label. Pass a callable if your labels contain record IDs
      # @param max_labels [Integer] 1 or more: how many values of `label` keep their names. All
      #   further values become `other`
      # @return [Recorder]
      # @raise [ArgumentError] an argument is not as described
      #
      # @example
      #   log = Object.new
      #   def log.count(name, labels, by) = puts("#{name} #{labels} +#{by}")
      #   def log.observe(name, labels, seconds) = puts("#{name} #{labels} #{seconds} s")
      #   def log.set(name, labels, value) = puts("#{name} #{labels} = #{value}")
      #   Plock::Metrics.start(log).stop
      def start(adapter, stores: nil, label: nil, max_labels: MAX_LABELS)
        check(adapter, stores, label, max_labels)
        recorder = Recorder.new(adapter, stores, label, max_labels)
        @lock.synchronize do
          @recorders[adapter]&.stop
          @recorders[adapter] = recorder
        end
        adapter.attach(recorder) if adapter.respond_to?(:attach)
        recorder.start
      end

      private

      def adapter_for(target, &make) = @lock.synchronize { @adapters[target] ||= make.call }

      def needing(gem)
        yield
      rescue LoadError => e
        raise UnsupportedError,
              "these metrics need the gem #{gem}, which could not be loaded (#{e.message}): add " \
              "gem \"#{gem}\" to the Gemfile"
      end

      def check(adapter, stores, label, max_labels)
        missing = %i[count observe set].find { |name| !adapter.respond_to?(name) }
        raise ArgumentError, "the adapter has no method #{missing}" if missing
        if label && !label.respond_to?(:call)
          raise ArgumentError, "label: must be a callable (got #{label.class})"
        end
        unless max_labels.is_a?(Integer) && max_labels.positive?
          raise ArgumentError, "max_labels: must be a positive Integer (got #{max_labels.inspect})"
        end

        all = stores.is_a?(Hash) ? stores.values : stores
        return if all.nil? || (all.is_a?(Array) && all.all?(Locking))

        raise ArgumentError, "stores: must be a list of stores, or stores by their names"
      end
    end
  end
end
