# frozen_string_literal: true

# Measures the cost of metrics, traces and logs. One process acquires and releases a free key again
# and again, on a local store and on a private Redis.
#
#   bundle exec ruby bench/observed.rb [ROUNDS [local|redis]]
#
# In each round, each configuration runs in its own process. The order changes from round to
# round, so that a busy moment of the machine does not always affect the same configuration. The
# CPU time is that of the configuration's process alone, without the server.

%w[../lib ../spec].each { |folder| $LOAD_PATH.unshift(File.expand_path(folder, __dir__)) }

require "rbconfig"
require "support/redis_server"
require "tmpdir"

module ObservedBench
  PAIRS = { "local" => 20_000, "redis" => 4_000 }.freeze
  SETTLE = 1_000 # pairs before the measurement

  FILES = <<~RUBY
    require "opentelemetry-sdk"
    require "prometheus/client"
    require "plock/metrics"
    require "plock/traces"
    require "plock/logs"
  RUBY

  # Each configuration's name, and the code that its process runs before the pairs.
  WAYS = {
    "plock alone" => "",
    "files required, nothing started" => FILES,
    "started and stopped again" => <<~RUBY,
      #{FILES}
      [Plock::Metrics.prometheus, Plock::Traces.start].each(&:stop)
      Plock::Logs.start && Plock::Logs.stop
    RUBY
    "a subscriber that does nothing" => "Plock.subscribe(/acquire|release/) { nil }",
    "log at info" => "Plock::Logs.start(level: :info)",
    "log at debug, to /dev/null" => <<~RUBY,
      require "logger"
      Plock::Logs.start(level: :debug, to: Logger.new(File::NULL))
    RUBY
    "metrics, prometheus-client in memory" => "#{FILES}\nPlock::Metrics.prometheus",
    "metrics, DirectFileStore" => <<~RUBY,
      #{FILES}
      require "prometheus/client/data_stores/direct_file_store"
      Prometheus::Client.config.data_store =
        Prometheus::Client::DataStores::DirectFileStore.new(dir: FOLDER)
      Plock::Metrics.prometheus
    RUBY
    "traces, SDK without a sampled span" => <<~RUBY,
      #{FILES}
      sampler = OpenTelemetry::SDK::Trace::Samplers::ALWAYS_OFF
      Plock::Traces.start(
        tracer_provider: OpenTelemetry::SDK::Trace::TracerProvider.new(sampler: sampler)
      )
    RUBY
    "traces, SDK, each span" => <<~RUBY
      #{FILES}
      Plock::Traces.start(tracer_provider: OpenTelemetry::SDK::Trace::TracerProvider.new)
    RUBY
  }.freeze

  # Prints three averages for one pair: wall-clock µs, CPU µs, and allocated objects.
  PROGRAM = <<~'RUBY'
    require "plock"
    ADDRESS, PAIRS, SETTLE, FOLDER = ARGV[0], Integer(ARGV[1]), Integer(ARGV[2]), ARGV[3]
    %s
    store = Plock::Store.open(ADDRESS)
    run = ->(pairs) { pairs.times { store.acquire("a free key") { nil } } }
    run.call(SETTLE)
    clocks = [Process::CLOCK_MONOTONIC, Process::CLOCK_PROCESS_CPUTIME_ID]
    read = -> { [*clocks.map { |clock| Process.clock_gettime(clock) },
                 GC.stat(:total_allocated_objects)] }
    before = read.call
    run.call(PAIRS)
    wall, cpu, objects = read.call.zip(before).map { |after, was| (after - was) / PAIRS.to_f }
    puts [wall * 1e6, cpu * 1e6, objects.round].join(" ")
  RUBY

  module_function

  def measure(address, pairs, way)
    Dir.mktmpdir("plock-bench-") do |folder|
      arguments = [address, pairs, SETTLE, folder].map(&:to_s)
      program = PROGRAM % WAYS.fetch(way)
      lib = File.expand_path("../lib", __dir__)
      IO.popen([RbConfig.ruby, "-I", lib, "-e", program, *arguments], &:read).split.map(&:to_f)
    end
  end

  def median(values) = values.sort[values.size / 2]

  def run(rounds, only = nil)
    Dir.mktmpdir("plock-bench-") do |folder|
      addresses = { "local" => "local:#{folder}/locks",
                    "redis" => Support::RedisServer.shared.unix_url }
      addresses.slice(*(only || PAIRS.keys)).each do |store, address|
        found = Hash.new { |all, way| all[way] = [] }
        rounds.times do |round|
          WAYS.keys.rotate(round).each { |way| found[way] << measure(address, PAIRS[store], way) }
        end
        puts "", "| #{store} | µs | least–most | CPU µs | objects |"
        puts "| --- | --- | --- | --- | --- |"
        WAYS.each_key { |way| puts row(way, found[way].transpose) }
      end
    end
  ensure
    Support::Supervisor.stop
  end

  def row(way, measured)
    walls, cpus, objects = measured
    format("| %s | %.2f | %.2f–%.2f | %.2f | %d |",
           way, median(walls), *walls.minmax, median(cpus), median(objects))
  end
end

ObservedBench.run(Integer(ARGV.fetch(0, "5")), ARGV[1])
