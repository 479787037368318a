# frozen_string_literal: true

require_relative "parse_context"

# Applications and log filters match on the beginnings of these messages, on the tags in brackets
# and on the values. Both implementations of the lock must have the same messages.
RSpec.describe Parse::Lock, "in what it says" do
  include_context "with Parse"

  let(:failing) do
    Class.new do
      attr_accessor :trouble

      def lock_acquire(*) = trouble == :acquire ? raise(IOError, "gone") : true
      def lock_release(*) = trouble == :release ? raise(IOError, "gone") : true
    end.new
  end

  def refused(*arguments, **options)
    described_class.acquire(*arguments, **options) { :never }
    nil
  rescue StandardError => e
    e
  end

  def said(&block) = warnings(&block).map(&:chomp)

  it "wants a block" do
    expect { described_class.acquire("key") }.to raise_error(ArgumentError, "block required")
  end

  it "names the class of a key that is no String, or empty" do
    { 7 => "Integer", nil => "NilClass", "" => "String" }.each do |key, name|
      expect(refused(key)).to be_a(ArgumentError).and have_attributes(
        message: "Parse::Lock.acquire: key must be a non-empty String (got #{name})"
      )
    end
  end

  it "says how long a key is, and to use a digest" do
    expect(refused("x" * 1025)).to be_a(ArgumentError).and have_attributes(
      message:
        a_string_starting_with(
          "Parse::Lock.acquire: key exceeds 1024 bytes (got 1025). "
        ).and(match(/digest/))
    )
  end

  it "names all modes, and the one that is none" do
    expect(refused("key", on_degraded: :riase)).to be_a(ArgumentError).and have_attributes(
      message: a_string_starting_with("Parse::Lock.acquire: on_degraded must be one of " \
                                      "[:warn, :warn_throttled, :proceed, :raise] (got :riase). ")
        .and(include("never treated as :warn"))
    )
  end

  it "says what a secret may be" do
    [7, "", :other].each do |secret|
      expect(refused("key", secret: secret)).to be_a(ArgumentError).and have_attributes(
        message: match(/\AParse::Lock\.acquire: secret must be :auto .*nil .*or a non-empty String/)
      )
    end
  end

  it "says how long a secret must be, and not what was given" do
    expect(refused("key", secret: "sesame")).to be_a(ArgumentError).and have_attributes(
      message:
        a_string_starting_with(
          "Parse::Lock.acquire: explicit `secret:` must be at least 16 bytes (got 6)"
        ).and(satisfy { |text| !text.include?("sesame") })
    )
  end

  { 0 => "0.0s", 0.05 => "0.05s", "0.01" => "0.01s" }.each do |wait, printed|
    it "says the key and the patience with wait: #{wait.inspect}" do
      use_redis
      held_by_another
      expect(refused(key, wait: wait)).to be_a(Parse::Lock::TimeoutError).and have_attributes(
        message: "Parse::Lock.acquire: could not acquire #{key.inspect} within #{printed}"
      )
    end
  end

  it "says with :raise that the store is process-local" do
    expect(refused(key, on_degraded: :raise)).to be_a(
      Parse::Lock::UnavailableError
    ).and have_attributes(
      message:
        "Parse::Lock: cross-process lock store unavailable; current store is process-local"
    )
  end

  it "warns with :warn, with the end of the store's key" do
    expect(said { acquire { nil } }).to eq(
      ["[Parse::Lock] Lock store is process-local; " \
       "cross-process locking disabled. key_digest=#{store_key[-12..]}"]
    )
  end

  it "warns with :warn_throttled" do
    expect(said { acquire(on_degraded: :warn_throttled) { nil } }).to eq(
      ["[Parse::Lock] Lock store is process-local (Moneta Memory/Null). " \
       "Cross-process locking is NOT in effect. " \
       "Configure a Redis-backed cache to enable distributed locking."]
    )
  end

  it "warns of keys without a secret, with both risks and three remedies" do
    ENV["PARSE_STACK_LOCK_SECRET"] = nil
    use_redis
    risks = /enumerate.*pin/
    remedies = /set\ PARSE_STACK_LOCK_SECRET
                .*Parse\.synchronize_create_secret
                .*Parse\.synchronize_create_store/x
    expect(said { acquire { nil } }).to contain_exactly(
      a_string_starting_with("[Parse::Lock:SECURITY] No PARSE_STACK_LOCK_SECRET configured " \
                             "and Redis-backed store detected.")
        .and(match(/#{risks}.*#{remedies}/))
    )
  end

  it "warns of an attempt that failed, with the error's class and message" do
    failing.trouble = :acquire
    Parse.synchronize_create_store = failing
    expect(said { refused(key, wait: 0) }).to eq(
      ["[Parse::LockBackend] acquire error (IOError): gone"]
    )
  end

  it "warns of a release that failed, with the error's class and message" do
    failing.trouble = :release
    Parse.synchronize_create_store = failing
    expect(said { acquire { nil } }).to eq(["[Parse::LockBackend] release error (IOError): gone"])
  end

  it "warns of an overrun: the key, the seconds, the ttl, and that exclusion was NOT guaranteed" do
    Parse.synchronize_create_store = failing
    clock = 1_000.0
    allow(Process).to receive(:clock_gettime).and_call_original
    allow(Process).to receive(:clock_gettime).with(Process::CLOCK_MONOTONIC) { clock }
    expect(said { acquire(ttl: 3) { clock += 3.14159 } }).to contain_exactly(
      a_string_starting_with(
        "[Parse::Lock] critical section for #{key.inspect} ran 3.14s, exceeding ttl: 3s"
      ).and(include("Mutual exclusion was NOT guaranteed"))
    )
  end

  it "warns of an overrun on Redis in the same words", :timing do
    use_redis
    section = /critical section for #{Regexp.escape(key.inspect)}/
    overrun = /#{section} ran 1\.\d{1,2}s, exceeding ttl: 1s/
    expect(said { acquire(ttl: 1) { sleep(1.05) } }).to contain_exactly(
      match(/\A\[Parse::Lock\] #{overrun}.*Mutual exclusion was NOT guaranteed/)
    )
  end

  describe "on a standard error stream that nobody reads" do
    # The stream's last reader has gone, for example because a log process has ended.
    around do |example|
      reader, writer = IO.pipe
      reader.close
      before, $stderr = $stderr, writer
      example.run
    ensure
      $stderr = before
      writer.close
    end

    it "runs the block without a shared store" do
      expect(acquire { :ran }).to be :ran
      expect(acquire(on_degraded: :warn_throttled) { :ran }).to be :ran
    end

    it "runs the block without a secret" do
      ENV["PARSE_STACK_LOCK_SECRET"] = nil
      use_redis
      expect(acquire { :ran }).to be :ran
    end

    it "says that the key was not acquired if the store fails" do
      failing.trouble = :acquire
      Parse.synchronize_create_store = failing
      expect(refused(key, wait: 0)).to be_a Parse::Lock::TimeoutError
      Parse.synchronize_create_store = "redis://127.0.0.1:1"
      expect(refused(key, wait: 0)).to be_a Parse::Lock::TimeoutError
    end

    it "returns the block's value if the release fails" do
      failing.trouble = :release
      Parse.synchronize_create_store = failing
      expect(acquire { :ran }).to be :ran
      server = redis_server
      Parse.synchronize_create_store = server.url
      value = acquire do
        server.kill
        :ran
      end
      expect(value).to be :ran
    end

    it "returns the block's value after an overrun" do
      Parse.synchronize_create_store = failing
      clock = 1_000.0
      allow(Process).to receive(:clock_gettime).and_call_original
      allow(Process).to receive(:clock_gettime).with(Process::CLOCK_MONOTONIC) { clock }
      expect(acquire(ttl: 3) { (clock += 4) && :ran }).to be :ran
    end
  end
end
