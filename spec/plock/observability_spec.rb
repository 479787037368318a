# frozen_string_literal: true

require "spec_helper"
require "tmpdir"

# Metrics, traces and logs together: all of them at once, and their cost when they are off.
RSpec.describe "Metrics, traces and logs" do
  folder = nil
  before(:context) { folder = Dir.mktmpdir("plock-observed-") }
  after(:context) { FileUtils.rm_rf(folder) }

  {
    "on Redis" => -> { shared_redis.unix_url },
    "in a local store" => -> { "local:#{folder}/locks" }
  }.each do |place, url|
    describe place do
      def observed(program, address)
        output, status = ruby(<<~RUBY, address, SecureRandom.hex(8))
          require "opentelemetry-sdk"
          require "plock/metrics"
          require "plock/traces"
          require "plock/logs"
          ADDRESS, KEY = ARGV
          STORE = Plock::Store.open(ADDRESS)
          STORE.acquire("first of all") { nil } # compares the secret; only later calls run in C

          # From now on, an acquire that is not made in C raises.
          def forbid_ruby
            local = STORE.is_a?(Plock::LocalStore)
            (local ? %i[take_for take_all_for] : %i[take take_all]).each do |taking|
              STORE.define_singleton_method(taking) { |*| raise "not through C" }
            end
          end

          def each_way
            STORE.acquire(KEY) { yield }
            STORE.try_acquire(KEY) { yield }
            STORE.semaphore(KEY, permits: 2).acquire { yield }
            STORE.read_write_lock(KEY).write { yield }
            STORE.acquire_all([KEY, "other"]) { yield }
          end

          def objects
            GC.disable
            before = GC.stat(:total_allocated_objects)
            100.times { STORE.acquire(KEY) { nil } }
            made = GC.stat(:total_allocated_objects) - before
            GC.enable
            made / 100
          end
          #{program}
        RUBY
        expect(status).to be_success, output
        output
      end

      it "leave blocks in C, without an object of an event, if nothing was started" do
        expect(observed(<<~'RUBY', instance_exec(&url))).to eq("[1, 2, 3, 4, 5] true\n")
          forbid_ruby
          entered = []
          each_way { entered << entered.size + 1 }
          puts "#{entered} #{objects <= 2}"
        RUBY
      end

      it "leave blocks in C again when they were stopped" do
        expect(observed(<<~'RUBY', instance_exec(&url))).to eq("[1, 2, 3, 4, 5] true\n")
          adapter = Class.new do
            %i[count observe set].each { |name| define_method(name) { |*| nil } }
          end.new
          started = [Plock::Metrics.start(adapter), Plock::Traces.start]
          Plock::Logs.start(level: :error)
          STORE.acquire(KEY) { nil }
          started.each(&:stop)
          Plock::Logs.stop
          forbid_ruby
          entered = []
          each_way { entered << entered.size + 1 }
          puts "#{entered} #{objects <= 2}"
        RUBY
      end

      it "do not affect a lock in a signal handler, which can lock no mutex" do
        expect(observed(<<~'RUBY', instance_exec(&url))).to end_with("acquired\nreleased: true\n")
          require "timeout"
          adapter = Class.new do
            %i[count observe set].each { |name| define_method(name) { |*| nil } }
          end.new
          $stderr = File.open(File::NULL, "w")
          Plock::Metrics.start(adapter)
          Plock::Traces.start
          Plock::Logs.start(level: :debug)
          done = Queue.new
          trap(:USR1) { done << (STORE.acquire(KEY, ttl: 30) { "acquired" } rescue $!) }
          Process.kill(:USR1, Process.pid)
          puts Timeout.timeout(10) { done.pop }
          puts "released: #{!STORE.status(KEY).held?}"
        RUBY
      end

      it "work beside each other and beside ActiveSupport::Notifications, in a child, too" do
        expect(observed(<<~'RUBY', instance_exec(&url))).to eq("[1, 1, 4, 2, 2]\n" * 2)
          require "active_support"
          require "active_support/notifications"
          require "stringio"
          require "logger"
          other = Plock::Store.open(ADDRESS)
          $stdout.sync = true
          values = Hash.new(0)
          adapter = Object.new
          adapter.define_singleton_method(:count) { |name, *| values[name] += 1 }
          adapter.define_singleton_method(:observe) { |name, *| values[name] += 1 }
          adapter.define_singleton_method(:set) { |*| nil }
          spans = OpenTelemetry::SDK::Trace::Export::InMemorySpanExporter.new
          processor = OpenTelemetry::SDK::Trace::Export::SimpleSpanProcessor.new(spans)
          provider = OpenTelemetry::SDK::Trace::TracerProvider.new
          provider.add_span_processor(processor)
          Plock::Metrics.start(adapter)
          Plock::Traces.start(tracer_provider: provider)
          log = StringIO.new
          Plock::Logs.start(level: :debug, to: Logger.new(log))
          heard = []
          ActiveSupport::Notifications.subscribe(/plock/) { |event| heard << event.name }
          work = -> do
            values.clear
            spans.reset
            heard.clear
            log.truncate(log.rewind)
            STORE.acquire(KEY) { nil }
            p [values[:wait_time], values[:hold_time],
               spans.finished_spans.size + log.string.lines.size, log.string.lines.size,
               heard.size]
          end
          work.call
          Process.wait(fork(&work))
        RUBY
      end
    end
  end
end
