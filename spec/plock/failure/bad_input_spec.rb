# frozen_string_literal: true

require "spec_helper"
require "support/failures"

RSpec.describe "Bad input" do
  include Support::Failures

  # The class of the error that the block raises, or the block's value.
  def outcome
    yield
  rescue ArgumentError, TypeError, RangeError => e
    e.class
  end

  def wrong?(outcome) = outcome.is_a?(Class)

  describe "a URL" do
    {
      "without anything in it" => ["", /URL/],
      "of an unknown scheme" => ["gopher://host", /scheme/],
      "without a scheme" => ["localhost:6379", /scheme/],
      "with a port that is no number" => ["redis://host:abc", /port/],
      "with a port that is too high" => ["redis://host:65536", /port/],
      "with port 0" => ["redis://host:0", /port/],
      "without a host" => ["redis://", /host/],
      "with a database that is no number" => ["redis://host/zero", /database/],
      "with an unknown option" => ["redis://host?patience=3", /patience/],
      "with an option that is no number" => [
        "redis://host?connect_timeout=soon", /connect_timeout/
      ],
      "with a negative time" => ["redis://host?attempt_timeout=-1", /attempt_timeout/],
      "with a time that is no number" => ["redis://host?command_timeout=nan", /command_timeout/],
      "with a pool of nothing" => ["redis://host?pool_size=0", /pool_size/],
      "with a verify mode that does not exist" => ["rediss://host?verify=perhaps", /verify/],
      "with an IPv6 address left open" => ["redis://[::1", /bracket/],
      "with a relative socket path" => ["unix://relative", /path/]
    }.each do |what, (url, part)|
      it "#{what} is a configuration error that names the part" do
        expect { open_store(url) }.to raise_error(Plock::ConfigurationError, part)
      end
    end

    it "that has a database where the primary's name stands says what is missing" do
      expect { open_store("redis-sentinel://host:1/0") }.to raise_error(
        Plock::ConfigurationError, /primary's name is missing beside the database.*MasterId=NAME/
      )
      expect(open_store("redis+sentinel://host:1/5").primary_name).to eq("5")
      expect(open_store("redis-sentinel://host:1/0?sentinelMasterId=5").primary_name).to eq("5")
    end

    it "with NUL in it is refused" do
      expect { open_store("redis://:hush\0@host") }.to raise_error(StandardError) { |error|
        expect(error.message).not_to match(/hush/)
      }
    end

    it "with an unescaped password is refused, and the error does not repeat the password" do
      ["pa@ss", "pa/ss", "pa:ss", "pa#ss", "pa?ss", "pa%ss", "p[a]ss"].each do |password|
        expect { open_store("redis://:#{password}@host:1") }.to raise_error(
          Plock::ConfigurationError
        ) do |error|
          expect(error.full_message).not_to match(/pa.ss|\bss\b|p\[a/)
        end
      end
    end

    it "with a password that is well escaped is understood" do
      server = redis_server(:password)
      expect_service(open_store(server.url(password: Support::RedisServer::PASSWORD)), server)
      expect_service(open_store(server.unix_url(password: Support::RedisServer::PASSWORD)), server)
      users = redis_server(:acl)
      expect_service(
        open_store(
          users.url(
            user: Support::RedisServer::ACL_USER, password: Support::RedisServer::ACL_PASSWORD
          )
        ),
        users
      )
    end
  end

  describe "an option" do
    {
      connect_timeout: [-1, 0, Float::NAN, Float::INFINITY, "soon"], attempt_timeout: [1e9, :x],
      pool_size: [0, -1, 1 << 40, 1.5], database: [-1, "x"], password: ["", 3],
      encoding: [:yaml, "plain\0"], verify: [:maybe, true], ca_file: ["", "a\0b"]
    }.each do |name, values|
      it "#{name} of a wrong value is a configuration error that names it" do
        values.each do |value|
          expect { open_store(name => value) }.to raise_error(Plock::ConfigurationError, /#{name}/)
        end
      end
    end

    it "of another name is an ArgumentError" do
      expect { open_store(patience: 3) }.to raise_error(ArgumentError, /patience/)
    end
  end

  describe "an argument of hold" do
    let(:store) { open_store }
    let(:key) { unique_key }

    def hold(key, ttl_ms = 3_000, wait = 0.05, report = nil, &block)
      outcome { store.hold(key, ttl_ms, wait, report, &block || -> { :entered }) }
    end

    it "key: nil, a Symbol, a number or nothing is refused" do
      [nil, :key, 5, ""].each { |bad| expect([bad, wrong?(hold(bad))]).to eq([bad, true]) }
    end

    it "key: binary, NUL inside and long ones are keys like others" do
      ["\xFF\x00\xFE#{key}".b, "a\0#{key}", "ä#{key}", "#{key}#{"x" * 100_000}"].each do |odd|
        seen = store.hold(odd, 3_000, 1.0, nil) { held?(odd) }
        expect([seen, held?(odd)]).to eq([true, false])
      end
    end

    it "key: a key that differs after NUL is another key" do
      store.hold("#{key}\0a", 3_000, 1.0, nil) do
        expect(hold("#{key}\0b") { :entered }).to eq(:entered)
      end
    end

    it "ttl: anything but a positive number of milliseconds is refused, and nothing is locked" do
      [nil, "5", 0, -1, Float::NAN, Float::INFINITY, 1 << 70].each do |bad|
        expect([bad, wrong?(hold(key, bad))]).to eq([bad, true])
      end
      expect(held?(key)).to be(false)
    end

    it "wait: nil, a String, a negative or no number is refused, and nothing is locked" do
      [nil, "5", -0.1, Float::NAN].each do |bad|
        expect([bad, wrong?(hold(key, 3_000, bad))]).to eq([bad, true])
      end
      expect(held?(key)).to be(false)
    end

    it "wait: an infinite number waits without an end" do
      expect(hold(key, 3_000, Float::INFINITY) { :entered }).to eq(:entered)
      expect(hold(key, 3_000, 1e300) { :entered }).to eq(:entered)
    end

    it "report: an object that cannot be called is refused, and nothing is locked" do
      expect(wrong?(hold(key, 3_000, 0.05, :report))).to be(true)
      expect(held?(key)).to be(false)
    end

    it "without a block nothing is locked" do
      expect { store.hold(key, 3_000, 0.05, nil) }.to raise_error(StandardError, /block/)
      expect(held?(key)).to be(false)
    end

    it "a report that raises does not enter the block, and its error is not hidden" do
      gate = proxy
      gate.refuse
      failing = open_store(gate.url)
      entered = false
      expect {
        failing.hold(key, 3_000, 1.0, ->(*) { raise IndexError, "report" }) { entered = true }
      }.to raise_error(IndexError)
      expect(entered).to be(false)
    end
  end

  describe "an argument of lock_acquire and lock_release" do
    let(:store) { open_store }
    let(:key) { unique_key }

    it "is refused if it is invalid" do
      [
        [nil, "o", 3], [key, nil, 3], ["", "o", 3], [key, "", 3], [key, "o", 0], [key, "o", -1],
        [key, "o", nil], [key, "o", 1 << 70]
      ].each do |bad|
        expect([bad, wrong?(outcome { store.lock_acquire(*bad) })]).to eq([bad, true])
      end
      expect(wrong?(outcome { store.lock_release(key, nil) })).to be(true)
      expect(held?(key)).to be(false)
    end

    it "may be binary" do
      owner = "\x00\xFF owner".b
      expect(store.lock_acquire(key, owner, 3)).to be(true)
      expect(shared_redis.call("GET", key).b).to eq(owner)
      expect([store.lock_release(key, "\x00\xFE"), store.lock_release(key, owner)]).to eq(
        [false, true]
      )
    end

    it "opens a closed store again" do
      store.close
      expect(store).to be_closed
      expect(store.lock_acquire(key, "o", 3)).to be(true)
      expect(store).not_to be_closed
    end
  end
  describe "says what is wrong, and what to do" do
    it "TLS against a plain port" do
      url = redis_server.url.sub("redis:", "rediss:")
      expect {
        open_store(url, ca_file: Support::Certificates.ca.cert_file).try_acquire("x")
      }.to raise_error(
        Plock::UnavailableError, /does not seem to speak TLS on this port \(then use redis:/
      )
    end

    it "a password for a server that has none" do
      store = open_store(shared_redis.url(password: "secret-0815"))
      expect { store.try_acquire("x") }.to raise_error(Plock::AuthenticationError) { |error|
        expect(error.message).to include(
          "has no password set: remove it from the URL, or set requirepass"
        )
        expect(error.message).not_to include("0815")
      }
    end

    it "a file of certificates that does not exist, or is of another kind" do
      {
        ca_file: "/nowhere/ca.pem", cert: "/nowhere/cert.pem", ca_path: "/nowhere"
      }.each do |option, path|
        expect {
          open_store("rediss://127.0.0.1:1", option => path).try_acquire("x")
        }.to raise_error(Plock::ConfigurationError, /#{option}: #{path}: No such file or directory/)
      end
      expect { open_store("rediss://127.0.0.1:1", ca_file: __FILE__).try_acquire("x") }
        .to raise_error(Plock::ConfigurationError, /ca_file: #{__FILE__}: .*a PEM file is needed/)
    end

    it "an unknown scheme, an empty URL and none at all" do
      expect { Plock::Store.open("http://localhost") }.to raise_error(
        Plock::ConfigurationError,
        Regexp.new("unknown scheme; known are redis://, rediss://, redis\\+sentinel://, .* " \
                   "redis-sentinel://, .*memcached://, local: and memory:")
      )
      {
        nil => "the store is nil: give a URL", "" => 'the store is "": give a URL'
      }.each do |source, words|
        expect { Plock::Store.open(source) }.to raise_error(
          Plock::ConfigurationError, /#{words} .*local: or memory:/
        )
      end
    end
  end
end
