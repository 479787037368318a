# frozen_string_literal: true

require "spec_helper"
require "tmpdir"

# Tests blocks whose lock is handled in C, together with ActiveSupport::Notifications. Each example
# runs in its own process, because ActiveSupport changes many classes.
RSpec.describe "ActiveSupport::Notifications beside Plock::Locking::Direct" do
  before do
    Gem::Specification.find_by_name("activesupport")
  rescue Gem::MissingSpecError
    skip "activesupport not installed"
  end

  {
    "on Redis" => ->(_) { shared_redis.unix_url },
    "in a local store" => ->(folder) { "local:#{folder}/locks" }
  }.each do |name, address|
    describe name do
      let(:key) { "direct:#{SecureRandom.hex(8)}" }

      define_method(:address_in) { |folder| instance_exec(folder, &address) }

      def notified(program)
        Dir.mktmpdir("plock-notified-") do |folder|
          output, status = ruby(<<~RUBY, address_in(folder), key)
            require "logger"
            require "timeout"
            require "active_support"
            require "active_support/notifications"
            require "plock"
            ADDRESS, KEY = ARGV
            STORE = Plock::Store.open(ADDRESS, logger: Logger.new(File::NULL))
            STORE.acquire("first of all") { nil } # compares the secret; only later calls run in C

            # From now on, a call that C does not complete on its own raises an error.
            def forbid_ruby
              local = STORE.is_a?(Plock::LocalStore)
              (local ? %i[take_for take_all_for] : %i[take take_all]).each do |taking|
                STORE.define_singleton_method(taking) { |*| raise "not through C" }
              end
            end

            def each_way
              share = STORE.read_write_lock(KEY)
              monitor = Plock::Monitor.new(KEY, store: STORE)
              STORE.acquire(KEY) { yield }
              STORE.acquire(KEY, ttl: 2, wait: 1) { yield }
              STORE.try_acquire(KEY) { yield }
              STORE.semaphore(KEY, permits: 2).acquire { yield }
              share.read { yield }
              share.write { yield }
              monitor.synchronize { yield }
              STORE.acquire_all([KEY, "other"]) { yield }
            end

            # Returns a list that gets the names and payloads.
            def hear(*names)
              names.each_with_object([]) do |name, told|
                ActiveSupport::Notifications.subscribe("\#{name}.plock") do |event|
                  told << [event.name, event.payload.except(:duration, :fence)]
                end
              end
            end

            #{program}
          RUBY
          expect(status).to be_success, output
          output
        end
      end

      it "keeps a call without listeners in C" do
        expect(notified(<<~'RUBY')).to eq("[1, 2, 3, 4, 5, 6, 7, 8]\n")
          hear(:timeout, :lost, :renew, :contended)
          forbid_ruby
          entered = []
          each_way { entered << entered.size + 1 }
          p entered
        RUBY
      end

      it "keeps a call in C whose listeners are silenced, as a log's are by its level" do
        expect(notified(<<~'RUBY')).to eq("[1, 2, 3, 4, 5, 6, 7, 8]\n")
          require "active_support/log_subscriber"
          log = Class.new(ActiveSupport::LogSubscriber) do
            %i[acquire release].each do |name|
              define_method(name) { |event| puts event.name }
              subscribe_log_level name, :debug
            end
          end
          ActiveSupport::LogSubscriber.logger = Logger.new(File::NULL, level: :info)
          log.attach_to(:plock)
          forbid_ruby
          entered = []
          each_way { entered << entered.size + 1 }
          p entered
        RUBY
      end

      it "tells of the same, with the same payloads, as Ruby does" do
        expect(notified(<<~'RUBY')).to eq("[35, true]\n")
          told = hear(:acquire, :release, :contended, :timeout, :lost)
          scenes = -> do
            each_way { nil }
            other = STORE.acquire(KEY, ttl: 10)
            begin
              STORE.acquire(KEY, wait: 0.01) { raise "entered" }
            rescue Plock::TimeoutError
              nil
            end
            STORE.try_acquire(KEY) { raise "entered" }
            STORE.try_acquire_all([KEY, "other"]) { raise "entered" }
            Thread.new { sleep(0.05) && other.release }
            STORE.acquire_all(["other", KEY]) { nil }
            other.release
            writer = STORE.read_write_lock(KEY).write
            Thread.new { STORE.read_write_lock(KEY).try_read { raise "entered" } }.join
            writer.release
            told.slice!(0, told.size)
          end
          through_c = scenes.call
          Plock.subscribe { nil }
          p [through_c.size, through_c.sort_by(&:inspect) == scenes.call.sort_by(&:inspect)]
        RUBY
      end

      it "tells how long the acquire took, and how long the key was held" do
        expect(notified(<<~'RUBY')).to eq("true true\n")
          spans = {}
          ActiveSupport::Notifications.subscribe(/plock/) do |event|
            spans[event.name] = [event.payload[:duration] * 1000, event.duration]
          end
          other = STORE.acquire(KEY, ttl: 10)
          Thread.new { sleep(0.1) && other.release }
          STORE.acquire(KEY, wait: 5) { sleep(0.05) }
          waited, held = spans.values_at("acquire.plock", "release.plock")
          puts [waited.all? { |span| span.between?(90, 5000) },
                held.all? { |span| span.between?(50, 5000) }].join(" ")
        RUBY
      end

      it "tells a listener of the release that comes inside, and not one that has gone" do
        expect(notified(<<~'RUBY')).to eq("release.plock\n[]\nacquire.plock\n")
          names = []
          heard = -> { names.slice!(0, names.size) }
          listener = ->(event) { names << event.name }
          STORE.acquire(KEY) do
            @it = ActiveSupport::Notifications.subscribe(/ease\.plock/, listener)
          end
          puts heard.call
          STORE.acquire(KEY) { ActiveSupport::Notifications.unsubscribe(@it) }
          p heard.call
          ActiveSupport::Notifications.subscribed(listener, "acquire.plock") do
            STORE.acquire(KEY) { nil }
          end
          STORE.acquire(KEY) { nil }
          puts heard.call
        RUBY
      end

      it "releases whatever a listener, or the question for one, raises" do
        outcomes = %w[entered Timeout::Error Timeout::Error killed]
        expect(notified(<<~'RUBY').lines).to eq(outcomes.map { |each| "#{each}, free\n" })
          listener = ActiveSupport::Notifications.subscribe(/plock/) { |_| raise "a listener" }
          held = -> { STORE.status(KEY).held? ? "held" : "free" }
          $stderr = File.open(File::NULL, "w")
          puts "#{STORE.acquire(KEY) { "entered" }}, #{held.call}"
          $stderr = STDERR
          ActiveSupport::Notifications.unsubscribe(listener)

          notifier = ActiveSupport::Notifications.notifier
          ask = ->(event, &interrupt) do
            asked = 0
            notifier.define_singleton_method(:listening?) do |name|
              interrupt.call if name == event && (asked += 1) == 1
              super(name)
            end
          end
          %w[acquire.plock release.plock].each do |event|
            ask.call(event) { raise Timeout::Error }
            begin
              STORE.acquire(KEY) { nil }
            rescue Timeout::Error => e
              puts "#{e.class}, #{held.call}"
            end
          end
          ask.call("release.plock") { Thread.current.kill }
          puts "#{Thread.new { STORE.acquire(KEY) { nil } }.value || "killed"}, #{held.call}"
        RUBY
      end

      it "tells of a loss and of a renewal while the block runs, in a child, too" do
        expect(notified(<<~'RUBY')).to eq("renew.plock lost.plock\n" * 2)
          2.times do |round|
            told = Queue.new
            it = ActiveSupport::Notifications.subscribe(/plock/) do |event|
              told << event.name if %w[renew.plock lost.plock].include?(event.name)
            end
            work = -> do
              forbid_ruby
              Plock::Monitor.new(KEY, ttl: 0.3, store: STORE).synchronize do
                names = [Timeout.timeout(10) { told.pop }]
                STORE.break(KEY)
                name = Timeout.timeout(10) { told.pop } until name == "lost.plock"
                puts [*names, name].join(" ")
              end
            end
            $stdout.sync = true
            round.zero? ? work.call : Process.wait(fork(&work))
            ActiveSupport::Notifications.unsubscribe(it)
          end
        RUBY
      end

      it "asks for no listeners in another Ractor, whose leases emit no events" do
        expect(notified(<<~'RUBY')).to eq("entered []\n")
          told = hear(:acquire, :release)
          Warning[:experimental] = false
          entered = Ractor.new(ADDRESS, KEY) do |address, key|
            store = Plock::Store.open(address)
            Array.new(2) { store.acquire(key) { "entered" } }.last
          end
          puts "#{entered.take} #{told}"
        RUBY
      end
    end
  end
end
