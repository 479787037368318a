# frozen_string_literal: true

require_relative "parse_context"

RSpec.describe Parse::Lock do
  include_context "with Parse"

  it "is a module with the constants that applications read" do
    expect(described_class).to be_an_instance_of(Module)
    expect(described_class::KEY_PREFIX).to eq("parse-stack:lock:v1:")
    expect([described_class::DEFAULT_TTL, described_class::DEFAULT_WAIT]).to eql([3, 2.0])
    expect([described_class::MAX_TTL, described_class::MAX_WAIT]).to eql([30, 30])
    expect(described_class::SECRET_MIN_BYTES).to be(16)
  end

  it "has the signature that applications call" do
    expect(described_class.method(:acquire).parameters)
      .to eq([%i[req key], %i[key ttl], %i[key wait], %i[key on_degraded], %i[key secret]])
  end

  it "refuses a keyword that it does not know" do
    expect { acquire(tll: 3) { :never } }.to raise_error(ArgumentError, /unknown keyword: :tll/)
  end

  describe ".reset!" do
    it "returns nil" do
      expect(described_class.reset!).to be_nil
    end

    it "forgets warnings and the secret made for this process" do
      secret = Parse::LockBackend.auto_secret
      2.times do
        expect(warnings { acquire(on_degraded: :warn_throttled) { :value } }.size).to be(1)
        described_class.reset!
      end
      expect(Parse::LockBackend.auto_secret).not_to eq(secret)
    end
  end

  describe "arguments" do
    before { use_redis }

    # In each call, all arguments that are checked after the reported one are also wrong.
    it "are looked at in the order of the contract" do
      later = { on_degraded: :riase, secret: "short", ttl: nil, wait: nil }
      expect { described_class.acquire(nil, **later) }.to raise_error(
        ArgumentError, "block required"
      )
      expect { described_class.acquire(nil, **later) { :never } }.to raise_error(
        ArgumentError, /: key must/
      )
      expect { acquire(**later) { :never } }.to raise_error(ArgumentError, /: on_degraded must/)
      expect { acquire(**later, on_degraded: :warn) { :never } }.to raise_error(
        ArgumentError, /: explicit `secret:` must/
      )
      expect { acquire(ttl: nil, wait: Float::NAN) { :never } }.to raise_error(TypeError)
      expect { acquire(wait: Float::NAN) { :never } }.to raise_error(
        ArgumentError, /\AParse::Lock.acquire: wait/
      )
    end

    it "are looked at before any store" do
      Parse.synchronize_create_store = "nonsense"
      expect { described_class.acquire("") { :never } }.to raise_error(ArgumentError, /key must/)
    end

    it "make the lock's time to live" do
      {
        5 => 5, "5" => 5, 2.9 => 2, -4 => 1, 0 => 1, 99 => 30, 10**30 => 30
      }.each do |given, seconds|
        left = acquire(ttl: given) { shared_redis.call("PTTL", store_key) }
        expect(left).to be_between((seconds * 1000) - 999, seconds * 1000), "ttl: #{given}"
      end
    end

    it "make the patience that the error tells of" do
      held_by_another
      { 0 => "0.0", -3 => "0.0", 0.05 => "0.05", "0.05" => "0.05" }.each do |given, seconds|
        expect { acquire(wait: given) { :never } }.to raise_error(
          Parse::Lock::TimeoutError,
          "Parse::Lock.acquire: could not acquire #{key.inspect} within #{seconds}s"
        )
      end
    end
  end

  describe "keys" do
    before { use_redis }

    it "are hashed with the secret" do
      expect(acquire { held? }).to be(true)
    end

    it "may be binary, with NUL, of 1024 bytes, and of a subclass of String" do
      ["\xFF\x00\n".b, "k" * 1024, "ключ", Class.new(String).new("k")].each do |odd|
        digest = OpenSSL::HMAC.hexdigest("SHA256", secret, odd)
        value =
          described_class.acquire(odd) do |token|
            [token, shared_redis.call("GET", "parse-stack:lock:v1:#{digest}")]
          end
        expect(value.uniq.size).to be(1)
      end
    end

    it "of the same bytes are the same key, whatever their encoding" do
      described_class.acquire("ключ #{key}") do
        expect { described_class.acquire("ключ #{key}".b, wait: 0) { :never } }.to raise_error(
          Parse::Lock::TimeoutError
        )
      end
    end

    it "do not stand in each other's way" do
      expect(acquire { described_class.acquire("#{key}!", wait: 0) { :both } }).to be(:both)
    end
  end

  describe "secrets" do
    before { use_redis }

    def stored_under(digest) = shared_redis.call("EXISTS", "parse-stack:lock:v1:#{digest}") == 1

    def hmac(secret) = OpenSSL::HMAC.hexdigest("SHA256", secret, key)

    it "given in the call are used as they are" do
      given = "0123456789abcdef"
      expect(acquire(secret: given) { stored_under(hmac(given)) }).to be(true)
    end

    it "that are nil make it a plain SHA-256, in silence" do
      expect(acquire(secret: nil) { stored_under(OpenSSL::Digest::SHA256.hexdigest(key)) }).to be(
        true
      )
    end

    it "configured in Parse go before the environment" do
      Parse.synchronize_create_secret = :a_symbol
      expect(acquire { stored_under(hmac("a_symbol")) }).to be(true)
    end

    it "come from the environment as it is at the call" do
      ENV["PARSE_STACK_LOCK_SECRET"] = "x"
      expect(acquire { stored_under(hmac("x")) }).to be(true)
    end

    context "without any" do
      let(:secret) { "" }

      it "make it a plain SHA-256, and one warning in the life of the process" do
        plain = OpenSSL::Digest::SHA256.hexdigest(key)
        heard = warnings { 2.times { expect(acquire { stored_under(plain) }).to be(true) } }
        expect(heard).to contain_exactly(
          start_with("[Parse::Lock:SECURITY] No PARSE_STACK_LOCK_SECRET configured " \
                     "and Redis-backed store detected.")
        )
      end

      it "are made up for a store of this process alone" do
        Parse.synchronize_create_store = nil
        digest = OpenSSL::HMAC.hexdigest("SHA256", Parse::LockBackend.auto_secret, key)
        expect(warnings { acquire { :value } }).to contain_exactly(/key_digest=#{digest[-12..]}$/)
      end
    end
  end

  describe "on Redis" do
    before { use_redis }

    it "returns the block's value" do
      expect(acquire { :value }).to be(:value)
      expect(acquire { nil }).to be_nil
    end

    it "keeps the token that the block is given as the plain value of the key" do
      token, value, type =
        acquire do |t|
          [t, shared_redis.call("GET", store_key), shared_redis.call("TYPE", store_key)]
        end
      expect(token).to match(uuid)
      expect([value, type]).to eq([token, "string"])
    end

    it "gives each hold a token of its own" do
      expect(Array.new(20) { acquire { |token| token } }.uniq.size).to be(20)
    end

    it "writes the key with its time to live, for three seconds where nothing is said" do
      expect(acquire { shared_redis.call("PTTL", store_key) }).to be_between(2_001, 3_000)
    end

    it "uses the database of its URL" do
      Parse.synchronize_create_store = "#{shared_redis.unix_url}?db=2"
      expect(acquire { held? }).to be(false)
    end

    it "lets a block be entered by one at a time" do
      expect(most_inside { |visit| 5.times { acquire(wait: 20, &visit) } }).to be(1)
    end

    it "waits until the holder is gone" do
      entered = Queue.new
      leave = Queue.new
      holder = background { acquire { entered.push(:in) && leave.pop } }
      entered.pop
      waiter = background { acquire(wait: 10) { :mine } }
      await_sleep(waiter)
      leave.push(:out)
      expect([holder.value, waiter.value]).to eq(%i[out mine])
    end

    it "takes over from a holder that died, when its time is over" do
      shared_redis.call("SET", store_key, SecureRandom.uuid, "PX", 200)
      expect(acquire(wait: 5) { :mine }).to be(:mine)
    end

    it "asks exactly once with wait: 0", :timing do
      held_by_another
      within_budget(0.2) do
        expect { acquire(wait: 0) { :never } }.to raise_error(Parse::Lock::TimeoutError)
      end
    end

    it "gives up when its patience ends", :timing do
      held_by_another
      for_as_long_as(0.3) do
        expect { acquire(wait: 0.3) { :never } }.to raise_error(
          Parse::Lock::TimeoutError, /within 0\.3s\z/
        )
      end
    end

    it "prints a patience that was too long as the longest" do
      store = Parse.synchronize_create_store = open_store
      allow(store).to receive(:hold_digest).with(any_args, 3_000, 30, anything).and_return(
        Plock::Store::UNACQUIRED
      )
      expect { acquire(wait: 99) { :never } }.to raise_error(
        Parse::Lock::TimeoutError, /within 30s\z/
      )
    end

    it "cannot be taken twice by one thread" do
      acquire { expect { acquire(wait: 0) { :never } }.to raise_error(Parse::Lock::TimeoutError) }
    end

    it "passes on a Plock::TimeoutError of the block's own" do
      own = Plock::TimeoutError.new("mine")
      expect { acquire { raise own } }.to raise_error(own)
    end

    it "passes on a Parse::Lock::TimeoutError of a lock inside, as it is" do
      expect {
        acquire do
          described_class.acquire("#{key}!") do
            described_class.acquire("#{key}!", wait: 0) { :never }
          end
        end
      }.to raise_error(Parse::Lock::TimeoutError, /#{key}!/)
    end
  end

  describe "its warnings" do
    it "go to $stderr" do
      expect { acquire { :value } }.to output(/process-local/).to_stderr
    end

    it "are silenced by -W0" do
      output, =
        ruby(
          "require 'parse/lock'; print Parse::Lock.acquire('k') { :value }",
          env: {
            "RUBYOPT" => "-W0"
          }
        )
      expect(output).to eq("value")
    end

    it "pass by Warning.warn" do
      program = <<~RUBY
        require "parse/lock"
        def Warning.warn(message, **) = print("heard")
        Parse::Lock.acquire("k") { :value }
      RUBY
      expect(ruby(program).first).to eq("heard")
    end
  end

  it "belongs to the main Ractor" do
    program = <<~RUBY
      require "parse/lock"
      Ractor.new { Parse::Lock.acquire("k") { :never } rescue print($!.class) }.take
    RUBY
    expect(ruby(program, env: { "RUBYOPT" => "-W:no-experimental" }).first).to match(
      /\ARactor::(?:Isolation|Unsafe)Error\z/
    )
  end

  describe "the cost of a hold" do
    # The lowest count of a few rounds, because other threads of the suite also allocate objects.
    def objects_per_hold(rounds: 3, holds: 200)
      name = key
      holds.times { Parse::Lock.acquire(name) { :warm } }
      Array.new(rounds) do
        GC.disable
        before = GC.stat(:total_allocated_objects)
        holds.times { Parse::Lock.acquire(name) { :held } }
        (GC.stat(:total_allocated_objects) - before) / holds.to_f
      ensure
        GC.enable
      end.min
    end

    it "is four Ruby objects: lease, token, key in the store and the secret from the environment" do
      use_redis
      expect(objects_per_hold).to be < 5
    end

    it "is not more where a client of the application is taken over" do
      Parse.synchronize_create_store = Redis.new(path: shared_redis.unix_path)
      expect(objects_per_hold).to be < 5
    end
  end
end
