# frozen_string_literal: true

require "spec_helper"
require "logger"
require "tmpdir"
require "stringio"

RSpec.describe Plock do
  around do |example|
    names = %w[PLOCK_URL PLOCK_SECRET PLOCK_NAMESPACE]
    before = ENV.to_h.slice(*names)
    names.each { |name| ENV.delete(name) }
    example.run
  ensure
    ENV.update(names.to_h { |name| [name, nil] }.merge(before))
    described_class.reset!
  end

  describe ".store" do
    describe "if none is configured" do
      around do |example|
        Dir.mktmpdir("plock-default-") do |folder|
          before = ENV.to_h.slice("XDG_RUNTIME_DIR", "RAILS_ENV", "RACK_ENV", "APP_ENV")
          ENV.update(
            "XDG_RUNTIME_DIR" => folder, "RAILS_ENV" => nil, "RACK_ENV" => nil, "APP_ENV" => nil
          )
          example.run
        ensure
          ENV.update(
            {
              "XDG_RUNTIME_DIR" => nil, "RAILS_ENV" => nil, "RACK_ENV" => nil, "APP_ENV" => nil
            }.merge(before)
          )
        end
      end

      it "is the embedded one, which is warned of once" do
        heard = warnings do
          expect(described_class.store).to be_a(Plock::LocalStore)
          described_class.replace_store(nil)
          expect(described_class.store.url).to eq(
            "local:#{ENV.fetch("XDG_RUNTIME_DIR")}/plock/locks"
          )
        end
        expect(heard).to match([/only processes of this host.*PLOCK_URL/])
        expect(described_class.acquire("k") { described_class.status("k").held? }).to be(true)
      end

      # On another thread, the logger would wait for the caller, which waits for the store.
      it "is opened on the thread of the caller, whose locks the logger may need" do
        lock = Monitor.new
        warnings = []
        logger = Object.new
        logger.define_singleton_method(:warn) { |text| lock.synchronize { warnings << text } }
        described_class.configure { |c| c.logger = logger }
        expect(lock.synchronize { described_class.acquire("k") { :ran } }).to eq(:ran)
        expect(warnings.size).to eq(1)
      end

      it "is not warned of if the configuration names it" do
        ENV["PLOCK_URL"] = "local:"
        expect(warnings { described_class.acquire("k") { nil } }).to be_empty
      end

      %w[RAILS_ENV RACK_ENV APP_ENV].each do |variable|
        it "is refused if #{variable} is production, and the error says what to set" do
          ENV[variable] = "production"
          expect { described_class.acquire("k") }.to raise_error(
            Plock::ConfigurationError, /#{variable}.*PLOCK_URL.*local:/
          )
          ENV["PLOCK_URL"] = "local:"
          expect(described_class.store).to be_a(Plock::LocalStore)
        end
      end
    end

    it "is opened once, at PLOCK_URL" do
      ENV["PLOCK_URL"] = "redis://localhost:7000/3"
      expect(described_class.store.url).to eq("redis://localhost:7000/3")
      expect(described_class.store).to be(described_class.store)
    end

    it "is opened once by concurrent threads" do
      ENV["PLOCK_URL"] = "memory:"
      stores = Array.new(8) { background { described_class.store } }.map(&:value)
      expect(stores.uniq.size).to be(1)
    end

    # Otherwise the last of ten threads would wait for ten attempts.
    [Plock::UnavailableError, KeyError].each do |error|
      it "fails for all threads that wait for an attempt, if the attempt fails with #{error}" do
        gate = Queue.new
        attempts = 0
        described_class.configure do |c|
          c.store = -> { (attempts += 1) && gate.pop && raise(error, "no") }
        end
        callers = Array.new(5) do
          background { described_class.store rescue $! }.tap { |thread| await_sleep(thread) }
        end
        gate << :go
        failures = callers.map(&:value)
        expect(failures.map { |failure| [failure.class, failure.message] }.uniq).to eq(
          [[error, "no"]]
        )
        expect([attempts, failures.uniq(&:object_id).size]).to eq([1, 5]) # each has its own
        gate << :go
        expect { described_class.store }.to raise_error(error)
        expect(attempts).to eq(2)
      end
    end

    # A thread inherits the interrupt mask of the thread that starts it. So if the callable ran with
    # interrupts masked, the threads that it starts could not be killed.
    it "is opened by a callable that can be interrupted, and whose threads can be killed" do
      thread = nil
      described_class.configure do |c|
        c.store = -> do
          thread = Thread.new { sleep(20) }
          Plock::Store.open("memory:")
        end
      end
      described_class.store
      expect(thread.kill.join(5)).to be(thread)
    end
  end

  describe "in a signal handler" do
    # Returns the block's value, or the exception that it raises.
    def in_handler
      heard = []
      before = trap(:USR1) { heard << (yield rescue $!) }
      Process.kill(:USR1, Process.pid)
      eventually { heard.any? }
      heard.first
    ensure
      trap(:USR1, before)
    end

    it "is opened by the first call, and refuses only on_lost: :raise" do
      program = <<~RUBY
        require "plock"
        Plock.configure { |c| c.url = ARGV[0] }
        done = Queue.new
        refused = -> { Plock.acquire("k", on_lost: :raise) { nil } rescue $!.class }
        trap(:USR1) { done << (Plock.acquire("k") { :ran } rescue $!) << refused.call }
        Process.kill(:USR1, Process.pid)
        puts done.pop, done.pop, Plock.status("k").held?
      RUBY
      local = "local:#{Support::Supervisor.folder}/first-in-a-handler/locks"
      [local, *(shared_redis.unix_url if Support::RedisServer.installed?)].each do |url|
        said = "ran\nPlock::UnsupportedError\nfalse\n"
        expect(ruby(program, url)).to match([said, be_success])
      end
    end

    {
      "the interrupted call opens it" => ["Configuration", "open"],
      "the interrupted call compares secrets" => ["LocalNote", "lock"]
    }.each do |moment, (name, method)|
      it "acquires while #{moment}" do
        program = <<~RUBY
          require "plock"
          Plock.configure { |c| c.url = ARGV[0] }
          done = Queue.new
          trap(:USR1) { done << (Plock.acquire("k") { :ran } rescue $!) }
          once = [:USR1]
          Plock::#{name}.prepend(
            Module.new do
              define_method(:#{method}) do |*given|
                super(*given).tap { once.pop&.then { |signal| Process.kill(signal, Process.pid) } }
              end
            end
          )
          puts Plock.acquire("j") { :also }, done.pop
        RUBY
        local = "local:#{Support::Supervisor.folder}/handler-#{method}/locks"
        expect(ruby(program, local)).to match(["also\nran\n", be_success])
      end
    end

    # A fiber may have begun the first call, and the handler runs in another fiber of the thread.
    it "is opened while another fiber opens it" do
      begun = [true]
      described_class.configure do |c|
        c.store = -> do
          Fiber.yield if begun.pop
          Plock::Store.open("memory:")
        end
      end
      first = Fiber.new { described_class.store }
      first.resume
      heard = in_handler { described_class.store }
      stores = [first.resume, described_class.store]
      expect(heard).to be_a(Plock::Testing::MemoryStore)
      expect(stores).to all be(heard)
    end

    it "is opened while its thread writes to the logger that is told of the opening" do
      program = <<~RUBY
        require "plock"
        require "logger"
        device = Object.new
        def device.write(_)
          return if @again

          Process.kill(:USR1, (@again = Process.pid))
          sleep(0.01) until DONE.any?
        end
        def device.close = nil
        DONE = []
        Plock.configure { |c| c.logger = Logger.new(device) }
        trap(:USR1) { DONE << (Plock.acquire("k") { :ran } rescue $!) }
        Plock.logger.info("work")
        puts DONE
      RUBY
      folder = File.join(Support::Supervisor.folder, "in-a-logger")
      FileUtils.mkdir_p(folder, mode: 0o700)
      env = { "PLOCK_URL" => nil, "XDG_RUNTIME_DIR" => folder }
      expect(ruby(program, env: env)).to match(["ran\n", be_success])
    end

    it "is opened by a callable that locks a mutex, unless the interrupted code has that mutex" do
      lock = Mutex.new
      described_class.configure do |c|
        c.store = -> { lock.synchronize { Plock::Store.open("memory:") } }
      end
      heard = lock.synchronize { in_handler { described_class.store } }
      expect(heard).to be_a(ThreadError).and have_attributes(message: /may hold a mutex/)
      expect(described_class.store).to be_a(Plock::Testing::MemoryStore)
      described_class.replace_store(nil)
      expect(in_handler { described_class.store }).to be_a(Plock::Testing::MemoryStore)
    end

    it "cannot be opened while it is being configured" do
      heard = nil
      described_class.configure do |c|
        heard = in_handler { described_class.store }
        c.url = "memory:"
      end
      expect(heard).to be_a(ThreadError)
      expect(described_class.store.url).to eq("memory:")
    end

    it "is opened after another thread has configured it" do
      gate = Queue.new
      configures = background { described_class.configure { |c| (c.url = "memory:") && gate.pop } }
      await_sleep(configures)
      background { await_sleep(Thread.main) && gate.push(:go) }
      expect(in_handler { described_class.store }).to be_a(Plock::Testing::MemoryStore)
    end

    it "cannot be opened by the callable that opens it" do
      described_class.configure { |c| c.store = -> { described_class.store } }
      expect(in_handler { described_class.store }).to be_a(ThreadError).and have_attributes(
        message: /while it already does so/
      )
    end

    it "cannot be configured while it is opened" do
      described_class.configure do |c|
        c.store = -> { background { described_class.configure { raise "ran" } }.value }
      end
      expect(in_handler { described_class.store }).to be_a(Plock::ConfigurationError)
    end

    it "cannot be configured if the handler interrupted the making of the configuration" do
      ENV["PLOCK_URL"] = "memory:"
      make = Plock::Configuration.method(:new)
      once = [true]
      allow(Plock::Configuration).to receive(:new) do
        make.call.tap { in_handler { described_class.store } if once.pop }
      end
      described_class.store
      expect { described_class.configure { raise "ran" } }.to raise_error(
        Plock::ConfigurationError, /in use/
      )
    end
  end

  describe ".configure" do
    it "goes before the environment" do
      ENV["PLOCK_URL"] = "redis://localhost:7000"
      described_class.configure { |c| c.url = "redis://localhost:7001" }
      expect(described_class.store.url).to eq("redis://localhost:7001")
    end

    it "gives the store its options and its defaults" do
      described_class.configure do |c|
        c.url = "memory:configured"
        c.namespace = "billing"
        c.ttl = 3
        c.wait = 0.01
      end
      described_class.acquire("k") do |lease|
        expect(lease.ttl).to eq(3.0)
        expect(lease.store_key).to eq(described_class.store_key("plock:v1:billing:", "k"))
        waits = Thread.new { described_class.acquire("k") { nil } }
        waits.report_on_exception = false
        expect { waits.value }.to raise_error(Plock::TimeoutError, /within 0.01 s/)
      end
      described_class.reset!
      described_class.configure do |c|
        c.url = "redis://localhost"
        c.options = { pool_size: 0 }
      end
      expect { described_class.store }.to raise_error(Plock::ConfigurationError, /pool_size/)
    end

    { secret: "sixteen bytes and more", namespace: "billing" }.each do |name, value|
      it "refuses options with a #{name}, which would not count" do
        described_class.configure do |configuration|
          configuration.url = "memory:"
          configuration.options = { name => value }
        end
        expect { described_class.store }.to raise_error(
          Plock::ConfigurationError, /options have a #{name}.*c\.#{name} = …/
        )
      end
    end

    it "takes ttl and wait from the options if it does not set them itself" do
      described_class.configure do |configuration|
        configuration.url = "memory:"
        configuration.wait = 0.5
        configuration.options = { ttl: 44, wait: 7 }
      end
      described_class.acquire("k") { |lease| expect(lease.ttl).to eq 44 }
      expect(described_class.store.config.wait).to eq 0.5
    end

    it "hashes keys with the secret, of the configuration or of the environment" do
      keys = [nil, "e" * 16].map do |secret|
        described_class.reset!
        ENV["PLOCK_SECRET"] = "e" * 16
        described_class.configure { |c| [c.url = "memory:", c.secret = secret] }
        described_class.acquire("k", &:store_key)
      end
      expect(keys.uniq).to eq([described_class.store_key("plock:v1:", "k", "e" * 16)])
      expect(Plock::Store.open("memory:").acquire("k", &:store_key)).to eq(keys.first)
    end

    it "names keys by PLOCK_NAMESPACE if it does not set a namespace itself" do
      ENV.update("PLOCK_URL" => "memory:", "PLOCK_NAMESPACE" => "billing")
      expect(described_class.acquire("k", &:store_key)).to start_with("plock:v1:billing:")
      described_class.reset!
      described_class.configure { |c| c.namespace = "books" }
      expect(described_class.acquire("k", &:store_key)).to start_with("plock:v1:books:")
    end

    %w[PLOCK_URL PLOCK_SECRET PLOCK_NAMESPACE].each do |variable|
      it "is refused if #{variable} is empty, which may mean anything" do
        ENV.update("PLOCK_URL" => "memory:", variable => "")
        expect { described_class.acquire("k") { raise "ran" } }.to raise_error(
          Plock::ConfigurationError, /#{variable} is empty/
        )
      end
    end

    describe "with a store" do
      let(:opened) { Plock::Store.open("memory:", namespace: "billing", secret: "s" * 16, ttl: 3) }

      it "has that one, as it was opened" do
        described_class.configure { |c| c.store = opened }
        expect(described_class.store).to be(opened)
        expect(
          described_class.acquire("k") { |lease| [lease.ttl, opened.status("k").held?] }
        ).to eq([3.0, true])
      end

      it "gives its warnings to the logger of the configuration, if it has none of its own" do
        output = StringIO.new
        described_class.configure { |c| [c.store = opened, c.logger = Logger.new(output)] }
        expect(warnings { described_class.acquire("k", ttl: 1) { opened.advance(2) } }).to be_empty
        expect(output.string).to include("is lost before its block ended")
      end

      it "calls a callable once, when the store is first needed" do
        called = 0
        described_class.configure { |c| c.store = -> { (called += 1) && opened } }
        expect(called).to be(0)
        2.times { described_class.acquire("k") { nil } }
        expect([called, described_class.store]).to eq([1, opened])
      end

      it "passes on a ThreadError of a callable, which it calls once" do
        calls = 0
        described_class.configure do |c|
          c.store = -> { (calls += 1) > 3 ? opened : raise(ThreadError, "own") }
        end
        expect { described_class.store }.to raise_error(ThreadError, "own")
        expect(calls).to be(1)
      end

      it "refuses an object that is not a store" do
        ["redis://localhost", 5, "nonsense"].each do |value|
          expect { described_class.configure { |c| c.store = value } }.to raise_error(
            Plock::ConfigurationError, /store must be .* a URL .* belongs in url/
          )
        end
        described_class.configure { |c| c.store = -> { "redis://localhost" } }
        expect { described_class.store }.to raise_error(
          Plock::ConfigurationError, /callable store must return .* \(got String\)/
        )
      end

      {
        url: ["redis://localhost", /url is of no use/],
        options: [{ pool_size: 2 }, /options is of no use/],
        ttl: [4, /ttl is 4, and of the store 3/],
        namespace: ["books", /namespace is "books", and of the store "billing"/],
        secret: ["t" * 16, /secret is another one/]
      }.each do |name, (value, message)|
        it "refuses another #{name} than that of the store" do
          described_class.configure { |c| [c.store = opened, c.public_send(:"#{name}=", value)] }
          expect { described_class.store }.to raise_error(Plock::ConfigurationError) { |error|
            expect(error.message).to match(message)
            expect(error.message).not_to include("tttt")
          }
        end
      end

      it "refuses another PLOCK_NAMESPACE, by which others would go" do
        ENV["PLOCK_NAMESPACE"] = "books"
        described_class.configure { |c| c.store = opened }
        expect { described_class.store }.to raise_error(
          Plock::ConfigurationError, /namespace is "books"/
        )
        ENV["PLOCK_NAMESPACE"] = "billing"
        expect(described_class.store).to be(opened)
      end
    end

    it "is refused once the store is in use, until reset!" do
      described_class.configure { |c| c.url = "memory:" }
      described_class.acquire("k") { nil }
      expect { described_class.configure { |c| c.url = "memory:other" } }.to raise_error(
        Plock::ConfigurationError, /in use/
      )
      described_class.reset!
      described_class.configure { |c| c.url = "memory:other" }
      expect(described_class.store.url).to eq("memory:other")
    end

    it "can be corrected if the store could not be opened" do
      described_class.configure { |c| c.url = "nonsense" }
      expect { described_class.store }.to raise_error(Plock::ConfigurationError)
      described_class.configure { |c| c.url = "memory:" }
      expect(described_class.store.url).to eq("memory:")
    end

    {
      namespace: ["", "a b", "a:b", "a" * 33, 5], secret: ["short", 5], ttl: [0, "3"], wait: [-1],
      logger: [5]
    }.each do |name, values|
      it "refuses a #{name} that cannot be right, and does not repeat a secret" do
        values.each do |value|
          expect { Plock::Store.open("memory:", name => value) }.to raise_error(
            Plock::ConfigurationError
          ) { |error| expect(error.message).not_to include("short") }
        end
      end
    end

    it "shows neither URL nor secret" do
      described_class.configure do |c|
        c.url = "redis://:sesame@localhost"
        c.secret = "sesame" * 3
        expect(c.inspect).not_to match(/sesame/)
      end
      expect(
        [described_class.store.inspect, described_class.store.config.inspect].join
      ).not_to match(/sesame/)
    end
  end

  it "has the methods of its default store" do
    described_class.configure { |c| c.url = "memory:" }
    lease = described_class.acquire("k")
    expect(described_class.try_acquire("k")).to be_nil
    expect(described_class.status("k")).to be_held
    expect(described_class.can?(:order)).to be(true)
    expect(described_class.each_lock.map(&:fence)).to eq([lease.fence])
    adopted = described_class.adopt(lease.dump)
    expect(described_class.break("k")).to be(true)
    expect(adopted).to be_lost
    inner = %i[config config= unverified? closed? break_key]
    expect(described_class.methods)
      .to include(*Plock::Locking.public_instance_methods(false) - inner)
  end

  it "tells the logger of a subscriber that raises" do
    output = StringIO.new
    described_class.configure { |c| [c.url = "memory:", c.logger = Logger.new(output)] }
    described_class.subscribe(:acquire) { raise "mistaken" }
    expect(described_class.acquire("k") { :entered }).to be(:entered)
    expect(output.string).to match(/a subscriber to acquire raised RuntimeError: mistaken/)
  end

  it "runs the block though the warning can be written nowhere" do
    program = <<~'RUBY'
      require "plock"
      reader, $stderr = IO.pipe
      reader.close
      Plock.configure { |c| c.url = "memory:" }
      Plock.subscribe(/acquire|release/) { raise "mistaken" }
      puts Plock.acquire("k") { "entered" }
      puts Plock.acquire("k", wait: 0) { "entered again" }
    RUBY
    expect(ruby(program).first).to eq("entered\nentered again\n")
  end

  it "warns through the logger" do
    output = StringIO.new
    described_class.configure { |c| [c.url = "memory:", c.logger = Logger.new(output)] }
    described_class.acquire("k") { described_class.break("k") }
    described_class.acquire("k", on_lost: ->(_) { raise IOError, "own" }) do
      described_class.break("k")
    end
    Thread.new { described_class.acquire("gone") && nil }.join
    eventually { GC.start || !described_class.status("gone").held? }
    Plock::Dispatcher.flush
    expect(output.string).to match(/WARN.*lost before its block ended.*WARN.*own.*WARN.*collected/m)
  end

  describe ".subscribe" do
    it "demands a block" do
      expect { described_class.subscribe }.to raise_error(ArgumentError, /block/)
    end

    it "lets the block run if a listener's error is binary, and its path is not ASCII" do
      described_class.configure { |c| c.url = "memory:" }
      described_class.subscribe(:acquire) { raise IOError, "\xFF".b, ["/é/app.rb:1"] }
      heard = warnings { expect(described_class.acquire("k") { :ran }).to be(:ran) }
      expect(heard.join).to include("acquire raised IOError: \uFFFD (/é/app.rb:1)")
    end

    it "lets the block run if the message of a listener's error raises, too" do
      described_class.configure { |c| c.url = "memory:" }
      mute = Class.new(IOError) { def message = raise(KeyError) }
      described_class.subscribe(:acquire) { raise mute }
      heard = warnings { expect(described_class.acquire("k") { :ran }).to be(:ran) }
      expect(heard.join).to include("its message cannot be shown, which raised KeyError")
    end

    it "accepts names as Symbols, Strings, patterns and objects with ===" do
      described_class.configure { |c| c.url = "memory:" }
      heard = Hash.new { |hash, pattern| hash[pattern] = [] }
      patterns = [nil, :acquire, "acquire", /^a/, ->(name) { name == :release }]
      patterns.each do |pattern|
        described_class.subscribe(pattern) { |event| heard[pattern] << event.name }
      end
      described_class.acquire("k") { nil }
      expect(heard.values_at(*patterns)).to eq(
        [%i[acquire release], %i[acquire], %i[acquire], %i[acquire], %i[release]]
      )
      described_class.reset!
      expect(Plock::Events.listening).to be_nil
    end
  end
end
