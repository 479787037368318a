# frozen_string_literal: true

require "spec_helper"

# Each example runs in its own process, because the SDK can be configured only once.
RSpec.describe "OpenTelemetry::Instrumentation::Plock" do
  # Runs the program, and returns its output. In the program, `spans` returns the names of the spans
  # that have ended, and LOG receives the log of the SDK.
  def traced(configuration, program, env: {})
    output, status = ruby(<<~RUBY, env: env)
      require "logger"
      require "opentelemetry-sdk"
      require "opentelemetry/instrumentation/plock"
      require "stringio"
      LOG = StringIO.new
      STORE = Plock::Store.open("memory:")
      EXPORTER = OpenTelemetry::SDK::Trace::Export::InMemorySpanExporter.new
      PLOCK = OpenTelemetry::Instrumentation::Plock::Instrumentation.instance

      def spans = EXPORTER.finished_spans.map(&:name)

      OpenTelemetry::SDK.configure do |c|
        c.logger = Logger.new(LOG)
        c.add_span_processor(OpenTelemetry::SDK::Trace::Export::SimpleSpanProcessor.new(EXPORTER))
        #{configuration}
      end
      #{program}
    RUBY
    expect(status).to be_success, output
    output
  end

  use = 'c.use "OpenTelemetry::Instrumentation::Plock"'
  lock = 'STORE.acquire("k", label: "one") { nil }'

  it "is installed by use, and by use_all" do
    [use, "c.use_all"].each do |configuration|
      expect(traced(configuration, <<~RUBY)).to eq(<<~TEXT)
        #{lock}
        p spans, PLOCK.installed?, PLOCK.version == Plock::VERSION
        p EXPORTER.finished_spans.last.attributes["plock.label"]
        puts LOG.string[/Plock was successfully installed/]
      RUBY
        ["plock.acquire", "plock.hold"]
        true
        true
        "one"
        Plock was successfully installed
      TEXT
    end
  end

  it "is not installed if it is turned off, or not used" do
    told = "#{lock}; p spans, PLOCK.installed?, Plock::Events.listening"
    off = { "OTEL_RUBY_INSTRUMENTATION_PLOCK_ENABLED" => "false" }
    expect(traced("", told)).to eq("[]\nfalse\nnil\n")
    expect(traced(use, told, env: off)).to eq("[]\nfalse\nnil\n")
    expect(traced('c.use_all("OpenTelemetry::Instrumentation::Plock" => { enabled: false })', told))
      .to eq("[]\nfalse\nnil\n")
  end

  it "makes no root spans with trace_root_spans: false, and no links to spans that are not there" do
    expect(traced("#{use}, { trace_root_spans: false }", <<~RUBY)).to eq(<<~TEXT)
      held = STORE.acquire("k", ttl: 60)
      OpenTelemetry.tracer_provider.tracer("test").in_span("outer") do
        STORE.try_acquire("k") { nil }
        held.release
        #{lock}
      end
      p spans, EXPORTER.finished_spans.first.links.to_a
    RUBY
      ["plock.acquire", "plock.acquire", "plock.hold", "outer"]
      []
    TEXT
  end

  it "leaves labels out with label: :omit, also if the environment says so" do
    told = "#{lock}; p EXPORTER.finished_spans.map { |span| span.attributes['plock.label'] }"
    expect(traced("#{use}, { label: :omit }", told)).to eq("[nil, nil]\n")
    env = { "OTEL_RUBY_INSTRUMENTATION_PLOCK_CONFIG_OPTS" => "label=omit" }
    expect(traced(use, told, env: env)).to eq("[nil, nil]\n")
  end

  it "tells of options that are not as described, and goes on with their defaults" do
    options = '{ label: "no", trace_root_spans: 1, keys: true }'
    output = traced("#{use}, #{options}", "#{lock}; p PLOCK.config.values; puts LOG.string")
    expect(output).to match(/\A\[true, :include\]$/)
      .and match(/option label value=no failed validation/)
      .and match(/option trace_root_spans value=1 failed validation/)
      .and match(/ignored the following unknown configuration options \[:keys\]/)
  end

  it "stands on Plock::Traces: a later start replaces it" do
    expect(traced(use, <<~RUBY)).to eq("[\"plock.acquire\", \"plock.hold\"]\n[true, false]\n")
      recorder = Plock::Traces.start
      #{lock}
      p spans
      p [recorder.stop, Plock::Events.listening.nil? ? false : true]
    RUBY
  end
end
