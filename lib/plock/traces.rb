# frozen_string_literal: true

require_relative "../plock"

module Plock
  # Spans of OpenTelemetry for leases. plock itself does not load this file; a program that wants
  # them requires `plock/traces`.
  #
  # * `plock.acquire` lasts from a call until it has its key, or fails. A timeout and an exception
  #   are errors. If the key was held by another caller of this process, the span has a link to the
  #   `plock.hold` span of that caller.
  # * `plock.hold` lasts from the acquire, or an adoption, until the lease ends. A loss and a failed
  #   release are errors. It is not the current span of the block, since a lease can end on another
  #   thread: spans of the block stand beside it.
  #
  # Both are children of the caller's current span. While they are made, blocks go through Ruby
  # instead of C.
  #
  # `opentelemetry/instrumentation/plock` starts them with the other instrumentations of the SDK.
  #
  # @example
  #   require "plock/traces"
  #   OpenTelemetry::SDK.configure
  #   Plock::Traces.start
  module Traces
    autoload :Recorder, File.expand_path("traces/recorder", __dir__)

    @lock = Mutex.new

    class << self
      # Begins to make spans. A second call replaces the first one.
      #
      # @param tracer_provider [OpenTelemetry::Trace::TracerProvider, nil] nil: the global one
      # @param root_spans [Boolean] are spans made if the caller has no current span? They then
      #   begin traces of their own
      # @param labels [Boolean] do spans have the labels of calls?
      # @return [Recorder]
      # @raise [UnsupportedError] the gem opentelemetry-api is missing; opentelemetry-sdk brings it
      def start(tracer_provider: nil, root_spans: true, labels: true)
        load_gem
        provider = tracer_provider || ::OpenTelemetry.tracer_provider
        recorder = Recorder.new(
          provider.tracer("plock", VERSION), root_spans: root_spans, labels: labels
        )
        before = @lock.synchronize { [@recorder, @recorder = recorder].first }
        before&.stop
        recorder.start
      end

      private

      def load_gem
        require "opentelemetry-api"
      rescue LoadError => e
        raise UnsupportedError,
              "traces need the gem opentelemetry-sdk, which could not be loaded (#{e.message}): " \
              "add gem \"opentelemetry-sdk\" to the Gemfile"
      end
    end
  end
end
