# frozen_string_literal: true

require "moneta"
require "pathname"
require "redis"

RSpec.describe Plock::Store do
  let(:key) { unique_key }
  let(:owner) { Plock.token }

  describe ".open" do
    # Returns the URL and the settings that the engine would receive. No server is needed.
    def given(source, **options)
      seen = nil
      allow(described_class).to receive(:connect) do |url, settings|
        seen = [url, settings]
        instance_double(described_class, unverified?: false, "config=": nil)
      end
      described_class.open(source, **options)
      seen
    end

    it "accepts a URL" do
      expect(open_store(shared_redis.url)).to be_a(described_class)
    end

    it "takes a URI, and a scheme in capital letters" do
      url = "redis://127.0.0.1:7000/2"
      expect(open_store(URI(url)).url).to eq(url)
      expect(open_store("REDIS+Cluster://127.0.0.1:7000").url)
        .to eq("redis+cluster://127.0.0.1:7000")
      expect(described_class.open("Local:")).to be_a(Plock::LocalStore)
      expect(described_class.open("MEMORY:capital").url).to eq("memory:capital")
    end

    it "does not connect yet" do
      store = open_store("redis://127.0.0.1:1")
      expect { store.lock_acquire(key, owner, 1) }.to raise_error(Plock::UnavailableError)
    end

    it "accepts an existing client in place of a URL" do
      store = open_store(Redis.new(path: shared_redis.unix_path, db: 3))
      store.lock_acquire(key, owner, 5)
      expect(shared_redis.call("GET", key)).to be_nil
      expect(Redis.new(path: shared_redis.unix_path, db: 3).get(key)).to eq(owner)
    end

    it "calls a client's callable for the password once, so a rotation needs a new store" do
      server = redis_server
      rotate = ->(password) do
        server.call("ACL", "SETUSER", "rot", "reset", "on", ">#{password}", "~*", "&*", "+@all")
        password
      end
      current = rotate.call("first")
      client = RedisClient.config(port: server.port, username: "rot", password: ->(_) { current })
      store = open_store(client)
      current = rotate.call("second")
      expect { store.acquire(key) { nil } }.to raise_error(Plock::AuthenticationError)
      expect(open_store(client).acquire(key) { :entered }).to be(:entered)
    end

    it "prefers options to the settings of a client" do
      url, settings =
        given(Redis.new(url: "redis://:secret@db1.example/3"), database: 4, pool_size: 2)
      expect([url, settings]).to eq(
        ["redis://db1.example:6379", { password: "secret", database: 4, pool_size: 2 }]
      )
    end

    it "refuses an object that has no address, without showing it" do
      expect { described_class.open(Struct.new(:password).new("secret")) }.to raise_error(
        Plock::ConfigurationError
      ) { |error| expect(error.message).not_to include("secret") }
    end

    it "refuses a Moneta store that changes values" do
      expect { described_class.open(Moneta.new(:Redis, compress: true)) }.to raise_error(
        Plock::ConfigurationError
      )
    end

    {
      "an unknown scheme" => "http://127.0.0.1",
      "a bad port" => "redis://127.0.0.1:sesame",
      "no scheme" => "127.0.0.1:6379",
      "nothing" => ""
    }.each do |what, url|
      it "refuses a URL with #{what}" do
        expect { described_class.open(url) }.to raise_error(Plock::ConfigurationError)
      end
    end

    it "never repeats the URL in an error" do
      expect { described_class.open("redis://alice:se/cret@127.0.0.1:sesame") }.to raise_error(
        Plock::ConfigurationError
      ) { |error| expect(error.full_message).not_to match(/cret|sesame/) }
    end

    it "refuses an unknown option, as Ruby does" do
      expect { described_class.open("redis://127.0.0.1", patience: 3) }.to raise_error(
        ArgumentError, "unknown keyword: :patience"
      )
    end

    it "treats an option of nil as absent" do
      expect(given("redis://127.0.0.1", password: nil, pool_size: nil)).to eq(
        ["redis://127.0.0.1", {}]
      )
    end

    it "treats an option of nil for memcached as absent", :databases do
      url = "memcached://127.0.0.1:1"
      expect(described_class.open(url, password: nil, pool_size: nil).url).to eq(url)
    end

    it "gives the engine numbers and names in its own form" do
      expect(
        given(
          "rediss://h", attempt_timeout: 1, release_timeout: 3r / 2, ca_file: Pathname("/ca.pem"),
          verify: :none
        ).last
      ).to eq(attempt_timeout: 1.0, release_timeout: 1.5, ca_file: "/ca.pem", verify: :none)
    end

    good = {
      connect_timeout: [0.001, 3600], command_timeout: [0.001, 3600], attempt_timeout: [0.2],
      release_timeout: [0.5], fence_ttl: [0, 0.5, 86_400, 31_622_400], pool_size: [1, 1024],
      username: ["alice"], password: ["s p:a/c@e"], database: [0, 15], ca_file: ["/ca.pem"],
      ca_path: ["/certs"], cert: ["/us.crt"], key: ["/us.key"], verify: %i[peer none],
      server_name: ["db1.example"], encoding: %i[plain marshal]
    }
    bad = {
      connect_timeout: [0, -1, 3601, Float::NAN, Float::INFINITY, "1", Complex(1, 1)],
      command_timeout: [0.0], attempt_timeout: [[]], release_timeout: [:soon],
      fence_ttl: [-1, 31_622_401, Float::NAN, "1"], pool_size: [0, 1025, 1.5, "4"],
      username: ["", 7], password: ["", :secret, "a\0b"], database: [-1, "1", 1.0, 10**12],
      ca_file: ["", 7], ca_path: [:here], cert: [Object.new], key: [true],
      verify: [true, false, "none"], server_name: [""], encoding: ["plain", :json]
    }

    it "takes the host of a sentinel for an empty name, which the servers have not" do
      expect(given("redis+sentinel://h/main", sentinel_server_name: "").last)
        .to eq(sentinel_server_name: "")
    end

    good.each do |name, values|
      values.each do |value|
        it "accepts #{name}: #{value.inspect}" do
          expect(given("redis://127.0.0.1", **{ name => value }).last).to eq(name => value)
        end
      end
    end

    bad.each do |name, values|
      values.each do |value|
        it "refuses #{name}: #{value.inspect}" do
          expect { described_class.open("redis://127.0.0.1", **{ name => value }) }.to raise_error(
            Plock::ConfigurationError, /#{name}/
          ) { |error| expect(error.code).to be(:bad_config) }
        end
      end
    end

    it "works in a Ractor" do
      program = <<~RUBY
        require "plock"
        url, key = ARGV
        ractor = Ractor.new(url, key) do |u, k|
          Plock::Store.open(u, pool_size: 2, command_timeout: 1).lock_acquire(k, "me", 5)
        end
        print ractor.take
      RUBY
      output, =
        ruby(program, shared_redis.unix_url, key, env: { "RUBYOPT" => "-W:no-experimental" })
      expect(output).to eq("true")
    end

    it "refuses a user name without a password, which would be another user" do
      expect { described_class.open("redis://127.0.0.1", username: "locks") }.to raise_error(
        Plock::ConfigurationError, /username/
      )
    end

    it "refuses a key without its certificate" do
      expect { described_class.open("rediss://127.0.0.1", key: "/k.pem") }.to raise_error(
        Plock::ConfigurationError, /key/
      )
    end

    it "never shows a password that it refuses" do
      expect { described_class.open("redis://127.0.0.1", password: :sesame) }.to raise_error(
        Plock::ConfigurationError
      ) { |error| expect(error.message).not_to include("sesame") }
    end
  end

  describe "against real servers" do
    let(:patience) { Support::Examples::PATIENT }

    it "logs in with a password" do
      store =
        open_store(
          redis_server(:password).url, password: Support::RedisServer::PASSWORD, **patience
        )
      expect(store.lock_acquire(key, owner, 5)).to be(true)
    end

    it "logs in as a user" do
      store =
        open_store(
          redis_server(:acl).url, username: Support::RedisServer::ACL_USER,
          password: Support::RedisServer::ACL_PASSWORD, **patience
        )
      expect(store.lock_acquire(key, owner, 5)).to be(true)
    end

    it "speaks TLS with the certificates it is given" do
      server = redis_server(:tls, client_auth: true)
      store =
        open_store(
          server.url(host: "localhost"), ca_file: Support::Certificates.ca.cert_file,
          cert: Support::Certificates.client.cert_file, key: Support::Certificates.client.key_file,
          **patience
        )
      expect(store.lock_acquire(key, owner, 5)).to be(true)
    end

    it "adopts TLS from a client" do
      server = redis_server(:tls)
      client =
        Redis.new(
          url: server.url(host: "localhost"),
          ssl_params: {
            ca_file: Support::Certificates.ca.cert_file
          }
        )
      expect(open_store(client, **patience).lock_acquire(key, owner, 5)).to be(true)
    end

    it "uses the database that an option names" do
      store = open_store(shared_redis.url, database: 5)
      store.lock_acquire(key, owner, 5)
      expect(Redis.new(path: shared_redis.unix_path, db: 5).get(key)).to eq(owner)
    end

    it "writes the owner as Marshal does if an option says so" do
      open_store(encoding: :marshal).lock_acquire(key, owner, 5)
      expect(Marshal.load(shared_redis.call("GET", key))).to eq(owner)
    end

    it "sends at most 300 bytes for an acquire, a release or a renewal" do
      server = redis_server # this server has no other clients
      store = open_store(server.unix_url)
      store.acquire(key, wait: 0) { |lease| lease.extend(ttl: 10) } # loads the scripts
      received = -> { server.call("INFO", "stats")[/total_net_input_bytes:(\d+)/, 1].to_i }
      asked = -received.call + received.call # the bytes of INFO itself
      cost = ->(&request) { -received.call + request.call.then { received.call } - asked }
      expect(cost.call { @lease = store.acquire(key, wait: 0) }).to be_between(150, 300)
      expect(cost.call { @lease.extend(ttl: 10) }).to be_between(100, 300)
      expect(cost.call { @lease.release }).to be_between(100, 300)
    end
  end

  # The names of the keys beside a lock are derived from its key. If the key has a hash tag, they
  # are derived in another way.
  it "keeps keys apart that differ in braces only" do
    store = open_store
    names = [key, "{#{key}}", "#{key}{b}", "{#{key}}{b}", "{#{key}{b}}", "#{key}}{b}"]
    names.each { |name| expect(store.lock_acquire(name, "me", 60)).to be(true) }
    expect(shared_redis.call("KEYS", "*#{key}*").size).to eq(2 * names.size)
    names.each { |name| expect(store.lock_release(name, "me")).to be(true) }
  end

  describe "#status of values that are not text" do
    let(:store) { open_store }
    let(:lock) { store.status(key).store_key }

    def note(text) = shared_redis.call("SET", "plock:1:{#{lock}}:fence", text, "PX", 5_000)

    it "shows an owner of any bytes" do
      store.lock_acquire(lock, "\xFF\n owner", 5)
      expect(store.status(key)).to have_attributes(
        held?: true, pid: Process.pid, thread: an_instance_of(Integer), label: nil,
        remaining: be_between(4, 5)
      )
      expect(store.each_lock.map(&:store_key)).to include(lock)
    end

    it "makes text of a label" do
      store.lock_acquire(lock, "owner", 5)
      note("1700000000000001 1700000000:000001 h\xFFst 1 2 - a%FFb\xFF owner")
      expect(store.status(key)).to have_attributes(host: "h\uFFFDst", label: "a\uFFFDb\uFFFD")
    end

    it "knows nothing of a holder whose record is malformed" do
      store.lock_acquire(lock, "owner", 5)
      [
        "", "\xFF", "1 1:1 host pid thread - - owner", "1 1:1 host 1 2 - -", "1 1:1 - - - - - owner"
      ].each do |text|
        note(text)
        expect(store.status(key)).to have_attributes(held?: true, host: nil, pid: nil, label: nil)
      end
    end
  end

  describe "#lock_acquire and #lock_release" do
    let(:store) { open_store }

    it "acquire the lock once, with its time to live, and release it" do
      expect(store.lock_acquire(key, owner, 5)).to be(true)
      expect(store.lock_acquire(key, Plock.token, 5)).to be(false)
      expect(shared_redis.call("GET", key)).to eq(owner)
      expect(shared_redis.call("PTTL", key)).to be_between(4_001, 5_000)
      expect(store.lock_release(key, owner)).to be(true)
      expect(shared_redis.call("EXISTS", key)).to eq(0)
    end

    it "leave another owner's lock alone" do
      store.lock_acquire(key, owner, 5)
      expect(store.lock_release(key, Plock.token)).to be(false)
      expect(shared_redis.call("GET", key)).to eq(owner)
    end
  end

  describe "that does not verify the server's certificate" do
    it "warns once for each address" do
      heard = warnings do
        2.times { open_store("rediss://127.0.0.1:7001", verify: :none) }
        open_store("rediss://127.0.0.1:7001?verify=none")
        open_store("rediss://127.0.0.1:7002", verify: :none)
      end
      expect(heard).to match([%r{rediss://127\.0\.0\.1:7001 }, %r{rediss://127\.0\.0\.1:7002 }])
    end

    it "warns of the sentinels alone if only they are not verified" do
      url = "rediss+sentinel://s1/of-sentinels"
      heard = warnings do
        2.times { open_store(url, verify: :peer, sentinel_verify: :none) }
        open_store(url, verify: :none)
      end
      expect(heard).to match([/ of its sentinels: .*Use sentinel_verify: :peer/,
                              / its certificate: .*Use verify: :peer/])
    end

    it "does not warn without TLS" do
      expect(open_store("redis://127.0.0.1", verify: :none)).not_to be_unverified
    end
  end

  describe "#url and #inspect" do
    let(:store) { open_store("redis://alice:sesame@127.0.0.1:7000/2") }

    it "show the URL without user and password" do
      expect(store.url).to eq("redis://127.0.0.1:7000/2")
      expect(store.inspect).to include("redis://127.0.0.1:7000/2")
      expect(store.inspect).not_to match(/sesame|alice/)
    end
  end

  it "is closed by #close" do
    store = open_store
    expect { store.close }.to change(store, :closed?).from(false).to(true)
  end
end
