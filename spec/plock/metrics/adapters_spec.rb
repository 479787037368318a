# frozen_string_literal: true

require "spec_helper"
require "tmpdir"

# Each example runs in its own process, because these gems keep global state.
RSpec.describe "The adapters of Plock::Metrics" do
  scenes = <<~'RUBY'
    require "plock/metrics"
    require "timeout"
    STORE = Plock::Store.open("memory:")

    # Label "one": one acquire, one timeout and one loss. Label "two": a lease that stays held.
    def scenes
      held = STORE.acquire("k", ttl: 30, label: "one")
      STORE.try_acquire("k", label: "one")
      STORE.break("k")
      held.release
      STORE.semaphore("k", permits: 2).acquire(label: "two")
    end
  RUBY

  define_method(:recorded) do |program, *arguments, env: {}|
    output, status = ruby("#{scenes}\n#{program}", *arguments, env: env)
    expect(status).to be_success, output
    output
  end

  describe "for prometheus-client" do
    it "shows all metrics as text, with units in their names" do
      text = recorded(<<~'RUBY')
        Plock::Metrics.prometheus
        lease = scenes
        require "prometheus/client/formats/text"
        puts Prometheus::Client::Formats::Text.marshal(Prometheus::Client.registry)
      RUBY
      expect(text).to include(
        %(plock_client_held{label="one",kind="lock"} 0.0\n),
        %(plock_client_held{label="two",kind="semaphore"} 1.0\n),
        %(plock_client_waiting{label="one",kind="lock"} 0.0\n),
        %(plock_client_timeouts_total{label="one",kind="lock"} 1.0\n),
        %(plock_client_losses_total{label="one",kind="lock"} 1.0\n),
        %(plock_client_wait_time_seconds_count{label="two",kind="semaphore"} 1.0\n),
        %(plock_client_wait_time_seconds_bucket{label="one",kind="lock",le="60.0"} 1.0\n),
        %(plock_client_hold_time_seconds_count{label="one",kind="lock"} 1.0\n),
        "# TYPE plock_client_late_renewals_total counter\n",
        "# TYPE plock_client_failed_releases_total counter\n",
        "# HELP plock_client_connection_count Connections to the store, used or idle\n"
      )
    end

    it "uses the registry that it is given, and counts once after a second call" do
      expect(recorded(<<~'RUBY')).to eq("true\n1.0\ntrue\n")
        require "prometheus/client"
        registry = Prometheus::Client::Registry.new
        first = Plock::Metrics.prometheus(registry)
        second = Plock::Metrics.prometheus(registry)
        lease = scenes
        puts Prometheus::Client.registry.metrics.empty?
        puts registry.get(:plock_client_timeouts_total).get(labels: { label: "one", kind: "lock" })
        puts [first.stop, second.stop] == [false, true]
      RUBY
    end

    it "sums up the processes of a DirectFileStore, forked children and killed threads included" do
      Dir.mktmpdir("plock-prometheus-") do |folder|
        expect(recorded(<<~'RUBY', folder)).to eq("4.0\n2.0\n3.0\n0.0\n4\n")
          require "prometheus/client"
          require "prometheus/client/data_stores/direct_file_store"
          Prometheus::Client.config.data_store =
            Prometheus::Client::DataStores::DirectFileStore.new(dir: ARGV[0])
          Plock::Metrics.prometheus
          metric = ->(name) { Prometheus::Client.registry.get(:"plock_client_#{name}") }
          held = -> { metric.call(:held).values.fetch({ label: "one", kind: "lock" }) }
          parents = Array.new(2) { |number| STORE.acquire("p#{number}", ttl: 30, label: "one") }
          gates = Array.new(2) { [IO.pipe, IO.pipe] }
          pids = gates.map.with_index do |((ready, tell), (go, let)), number|
            fork do
              child = Plock::Store.open("memory:")
              lease = child.acquire("c", ttl: 30, label: "one")
              child.try_acquire("c", label: "one")
              tell.puts "held"
              go.gets
              lease.release
            end
          end
          gates.each { |(ready, _), _| ready.gets }
          puts held.call
          puts metric.call(:timeouts_total).values.values.sum
          gates.first.last.last.puts "go"
          Process.wait(pids.first)
          puts held.call
          gates.last.last.last.puts "go"
          Process.wait(pids.last)
          parents.each(&:release)
          puts held.call
          puts metric.call(:hold_time_seconds).values.values.sum { |each| each["+Inf"] }.to_i
        RUBY
      end
    end

    it "shows no lease of the parent in a child, even before the child's first event" do
      expect(recorded(<<~'RUBY')).to eq("{\"one\"=>1.0}\n{\"one\"=>0.0}\n")
        $stdout.sync = true
        Plock::Metrics.prometheus
        lease = STORE.acquire("k", ttl: 30, label: "one")
        gauge = Prometheus::Client.registry.get(:plock_client_held)
        show = -> { p gauge.values.transform_keys { |labels| labels[:label] } }
        show.call
        Process.wait(fork { show.call })
      RUBY
    end

    it "reads the pool when it is scraped" do
      expect(recorded(<<~'RUBY', shared_redis.url)).to eq("0\n1.0\n")
        redis = Plock::Store.open(ARGV[0])
        Plock::Metrics.prometheus(stores: { "locks" => redis })
        count = Prometheus::Client.registry.get(:plock_client_connection_count)
        idle = -> { count.values[{ store: "locks", state: "idle" }] }
        puts idle.call.to_i
        redis.status("k") # no event
        puts idle.call
      RUBY
    end
  end

  describe "for Yabeda" do
    program = <<~'RUBY'
      lease = scenes
      values = Yabeda::TestAdapter.instance
      Yabeda.collect!
      one = { label: "one", kind: "lock" }
      p values.counters[Yabeda.plock.client_timeouts_total][one]
      p values.gauges[Yabeda.plock.client_held]
        .select { |_, value| value == 1 }.keys
      p values.histograms[Yabeda.plock.client_wait_time][one].class
      p Yabeda.plock.client_wait_time.unit, Yabeda.plock.client_held.aggregation
    RUBY
    expected = <<~TEXT
      1
      [{:label=>"two", :kind=>"semaphore"}]
      Float
      :seconds
      :sum
    TEXT

    it "records in the group plock, declared before Yabeda is configured" do
      expect(recorded(<<~RUBY)).to eq(expected)
        require "yabeda"
        require "yabeda/test_adapter"
        Plock::Metrics.yabeda
        STORE.acquire("too early") { nil }
        Yabeda.register_adapter(:test, Yabeda::TestAdapter.instance)
        Yabeda.configure!
        #{program}
      RUBY
    end

    it "does the same if Yabeda is configured already, and in a forked child" do
      expect(recorded(<<~RUBY)).to eq(expected + expected.sub("1", "2"))
        require "yabeda"
        require "yabeda/test_adapter"
        $stdout.sync = true
        Yabeda.register_adapter(:test, Yabeda::TestAdapter.instance)
        Yabeda.configure!
        Plock::Metrics.yabeda
        #{program}
        lease.release
        Process.wait(fork do
          #{program}
        end)
      RUBY
    end

    it "tells the size of a pool that was used before Yabeda was configured" do
      expect(recorded(<<~'RUBY', shared_redis.url)).to eq("{{:store=>\"locks\"}=>3}\n")
        require "yabeda"
        require "yabeda/test_adapter"
        redis = Plock::Store.open(ARGV[0], pool_size: 3)
        Plock::Metrics.yabeda(stores: { "locks" => redis })
        redis.acquire("too early") { nil }
        Yabeda.register_adapter(:test, Yabeda::TestAdapter.instance)
        Yabeda.configure!
        redis.acquire("k") { nil }
        p Yabeda::TestAdapter.instance.gauges[Yabeda.plock.client_connection_max]
      RUBY
    end

    it "reads the pool when Yabeda collects" do
      expect(recorded(<<~'RUBY', shared_redis.url)).to eq("nil\n1\n")
        require "yabeda"
        require "yabeda/test_adapter"
        redis = Plock::Store.open(ARGV[0])
        Plock::Metrics.yabeda(stores: { "locks" => redis })
        Yabeda.register_adapter(:test, Yabeda::TestAdapter.instance)
        Yabeda.configure!
        gauges = Yabeda::TestAdapter.instance.gauges[Yabeda.plock.client_connection_count]
        redis.status("k")
        p gauges[{ store: "locks", state: "idle" }]
        Yabeda.collect!
        p gauges[{ store: "locks", state: "idle" }]
      RUBY
    end
  end

  describe "for OpenTelemetry" do
    begin_of = <<~'RUBY'
      require "opentelemetry-metrics-sdk"
      ENV["OTEL_METRICS_EXPORTER"] = "none"
      ENV["OTEL_TRACES_EXPORTER"] = "none"
      OpenTelemetry::SDK.configure
      EXPORTER = OpenTelemetry::SDK::Metrics::Export::InMemoryMetricPullExporter.new
      OpenTelemetry.meter_provider.add_metric_reader(EXPORTER)
      def points
        EXPORTER.reset
        EXPORTER.pull
        EXPORTER.metric_snapshots.to_h { |each| [each.name, [each.unit, each.data_points]] }
      end

      def value(name, attributes)
        points.fetch("plock.client.#{name}").last.find { |each| each.attributes == attributes }
      end
      ONE = { "label" => "one", "kind" => "lock" }
    RUBY

    it "records names, units, attributes and values" do
      expect(recorded(begin_of + <<~'RUBY')).to eq(<<~TEXT)
        Plock::Metrics.open_telemetry
        lease = scenes
        p points.keys.grep(/wait/).sort, points["plock.client.wait_time"].first
        p value("timeouts", ONE).value, value("losses", ONE).value, value("held", ONE).value
        p value("held", { "label" => "two", "kind" => "semaphore" }).value
        p value("wait_time", ONE).count, value("wait_time", ONE).explicit_bounds.first(2)
        STORE.acquire("without a label") { nil }
        p value("hold_time", { "kind" => "lock" }).count
      RUBY
        ["plock.client.wait_time", "plock.client.waiting"]
        "s"
        1
        1
        0
        1
        1
        [0.0001, 0.00025]
        1
      TEXT
    end

    it "counts the child's leases in a forked child" do
      expect(recorded(begin_of + <<~'RUBY')).to eq("1\n1\n0\n")
        $stdout.sync = true
        Plock::Metrics.open_telemetry
        lease = STORE.acquire("k", ttl: 30, label: "one")
        p value("held", ONE).value
        Process.wait(fork do
          own = STORE.acquire("other", ttl: 30, label: "one")
          p value("held", ONE).value
          own.release
          p value("held", ONE).value
        end)
      RUBY
    end

    it "does nothing harmful without an SDK" do
      expect(recorded(<<~'RUBY')).to eq("done\n")
        require "opentelemetry-metrics-api"
        Plock::Metrics.open_telemetry
        scenes.release
        puts "done"
      RUBY
    end
  end
end
