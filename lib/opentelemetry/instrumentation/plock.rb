# frozen_string_literal: true

require "opentelemetry-instrumentation-base"
require_relative "../../plock/traces"

# The API of OpenTelemetry, from its own gems.
module OpenTelemetry
  # The instrumentations of libraries. Most are in gems of their own; this one is in plock.
  module Instrumentation
    # Makes {::Plock::Traces} one of the instrumentations that OpenTelemetry's SDK installs. To add
    # it, `require "opentelemetry/instrumentation/plock"`. This needs the gem
    # `opentelemetry-instrumentation-base`.
    #
    # @example
    #   require "opentelemetry/instrumentation/plock"
    #   OpenTelemetry::SDK.configure do |c|
    #     c.use "OpenTelemetry::Instrumentation::Plock", { trace_root_spans: false }
    #   end
    module Plock
      # The version of plock.
      VERSION = ::Plock::VERSION

      # | option | default | meaning |
      # | --- | --- | --- |
      # | `:trace_root_spans` | true | false: no spans if the caller has no current span |
      # | `:label` | `:include` | `:omit`: spans do not show the labels of calls |
      class Instrumentation < OpenTelemetry::Instrumentation::Base
        option :trace_root_spans, default: true, validate: :boolean
        option :label, default: :include, validate: %i[include omit]

        present { defined?(::Plock::Traces) }

        install do |config|
          ::Plock::Traces.start(
            root_spans: config[:trace_root_spans], labels: config[:label] == :include
          )
        end
      end
    end
  end
end
