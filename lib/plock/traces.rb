# frozen_string_literal: true

require_relative "../plock"
require_relative "traces/recorder"

module Plock
  # OpenTelemetry spans for leases. plock itself does not load this file; a program that wants
  # spans requires `plock/traces`.
  #
  # * `plock.acquire` lasts from a call until it has acquired its key, or has failed. A timeout or
  #   an exception gives the span the status error. If the key was held by another caller of this
  #   process, the span has a link to the `plock.hold` span of that caller.
  # * `plock.hold` lasts from the acquire, or an adoption, until the lease ends. A loss or a
  #   failed release gives the span the status error. This span is not the current span of the
  #   block, because a lease can end on another thread. So the block's own spans are siblings of
  #   `plock.hold`, not its children.
  #
  # Both are children of the caller's current span. While traces are on, calls with a block run in
  # Ruby instead of C.
  #
  # `opentelemetry/instrumentation/plock` starts the traces together with the SDK's other
  # instrumentations.
  #
  # @example
  #   require "plock/traces"
  #   OpenTelemetry::SDK.configure
  #   Plock::Traces.start
  module Traces
    @lock = Mutex.new

    class << self
      # Starts making spans. A second call stops the recorder of the first call.
      #
      # @param tracer_provider [OpenTelemetry::Trace::TracerProvider, nil] nil:
      #   the global provider
      # @param root_spans [Boolean] are spans made if the caller has no current span? Such spans
      #   begin traces of their own
      # @param labels [Boolean] do spans show the labels of calls?
      # @return [Recorder]
      # @raise [UnsupportedError] the gem opentelemetry-api, on which opentelemetry-sdk depends,
      #   is missing
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
