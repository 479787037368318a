# frozen_string_literal: true

require "json"
require "open3"
require "spec_helper"
require "plock/metrics"
require "tmpdir"

RSpec.describe "docs/grafana.json" do
  file = File.expand_path("../../../docs/grafana.json", __dir__)
  dashboard = JSON.parse(File.read(file))
  expressions = dashboard["panels"].flat_map { |panel| panel["targets"] }.map { |one| one["expr"] }
  queries = dashboard.dig("templating", "list").map { |variable| variable["query"] }
  instruments =
    Plock::Metrics::INSTRUMENTS.values.to_h { |each| [each.prometheus_name.to_s, each] }
  series = instruments.flat_map do |name, instrument|
    next name unless instrument.type == :histogram

    %w[bucket sum count].map { |suffix| "#{name}_#{suffix}" }
  end
  metric = /\bplock_\w+/
  instrument_of = ->(name) { instruments[name] || instruments[name[/.*(?=_)/]] }

  it "names only metrics that exist" do
    named = (expressions + queries).flat_map { |text| text.scan(metric) }.uniq
    expect(named.size).to be > 10
    expect(named - series).to eq([])
  end

  instruments.each do |name, instrument|
    it "shows #{instrument.name}" do
      shown = expressions.any? do |text|
        text.scan(metric).any? { |each| instrument_of.call(each) == instrument }
      end
      expect(shown).to be(true), "no panel shows #{name}"
    end
  end

  it "names only labels that the metrics have" do
    expressions.each do |text|
      labels = text.scan(metric).flat_map { |name| instrument_of.call(name).labels.map(&:to_s) }
      named = text.scan(/by \(([^)]*)\)/).flat_map { |list,| list.split(/, */) } +
              text.scan(/(\w+)=~/).flatten
      expect(named.uniq - labels - ["le"]).to eq([]), text
    end
  end

  it "asks for rates of counters and buckets, and never of gauges" do
    expressions.each do |text|
      text.scan(/(rate\()?(plock_\w+)/) do |rate, name|
        expect(rate.nil?).to be(instrument_of.call(name).type == :gauge), text
      end
    end
  end

  it "can be imported: its panels have numbers, places and units, and its variables exist" do
    panels = dashboard["panels"]
    expect(panels.map { |panel| panel["id"] }.uniq.size).to eq(panels.size)
    expect(panels.map { |panel| panel["gridPos"].values_at("x", "y") }.uniq.size)
      .to eq(panels.size)
    expect(panels.map { |panel| panel.dig("fieldConfig", "defaults", "unit") }).to all(be_a(String))
    variables = dashboard.dig("templating", "list").map { |variable| variable["name"] }
    used = JSON.generate(panels).scan(/\$\{?([a-z]\w*)/).flatten.uniq
    expect(used - variables).to eq([])
  end

  describe "to Prometheus", needs: "promtool" do
    # Fills in the variables that Grafana would fill in.
    queried = ->(text) { text.gsub("$__rate_interval", "5m").gsub(/\$\w+/, ".+") }
    alerts =
      File.read(File.expand_path("../../../docs/observability.md", __dir__))
        .scan(/^\| `(\w*\(?plock_[^`]*)`(?:, for minutes)? \|.*/).flatten.grep(/>/)

    def promtool(*command, files)
      Dir.mktmpdir("plock-promtool-") do |folder|
        # JSON is also valid YAML
        files.each { |name, data| File.write(File.join(folder, name), JSON.generate(data)) }
        Open3.capture2e("promtool", *command, files.keys.first, chdir: folder)
      end
    end

    # Samples of each metric, with all its labels. The counters grow by one each minute.
    def samples(instruments)
      instruments.flat_map do |name, instrument|
        labels = instrument.labels.map { |label| "#{label}=\"one\"" }
        values = instrument.type == :gauge ? "1x30" : "0+1x30"
        next [[name, labels, values]] unless instrument.type == :histogram

        buckets = [*instrument.buckets, "+Inf"].map do |limit|
          ["#{name}_bucket", [*labels, "le=\"#{limit}\""], values]
        end
        [*buckets, ["#{name}_count", labels, values], ["#{name}_sum", labels, values]]
      end
        .map do |name, labels, values|
          { series: "#{name}{#{labels.join(",")}}", values: values.sub(/\A1x/, "1+0x") }
        end
    end

    it "has expressions without mistakes, and so have the alerts" do
      expect(alerts.size).to be(3)
      rules = [*expressions, *alerts].each_with_index.map do |text, number|
        { record: "plock:#{number}", expr: queried.call(text) }
      end
      groups = { groups: [{ name: "a", rules: rules }] }
      output, status = promtool("check", "rules", { "rules" => groups })
      expect(status).to be_success, output
      broken = { groups: [{ name: "a", rules: [{ record: "b", expr: "sum by (a (b)" }] }] }
      expect(promtool("check", "rules", { "rules" => broken }).last).not_to be_success
    end

    it "has expressions that show each metric" do
      tests = expressions.map do |text|
        { expr: "count(#{queried.call(text)})", eval_time: "20m",
          exp_samples: [{ labels: "{}", value: 1 }] }
      end
      test = { interval: "1m", input_series: samples(instruments), promql_expr_test: tests }
      output, status = promtool("test", "rules", { "tests" => { tests: [test] } })
      expect(status).to be_success, output
    end
  end
end
