# frozen_string_literal: true

require "spec_helper"
require "support/failures"
require "support/store_contract"

# The user may call functions, but not scripts (Redis 7 or later).
RSpec.describe "A store whose user may call functions only", needs: Support::RedisServer::PROGRAM,
                                                            redis_version: "7" do
  include Support::Failures

  # rubocop:disable RSpec/BeforeAfterAll -- the shared contract asks this server often
  before(:all) { @server = Support::RedisServer.start }
  after(:all) { @server.stop }
  # rubocop:enable RSpec/BeforeAfterAll

  let(:server) { @server }
  let(:store) { opener.call }
  let(:opener) do
    ->(**options) { open_store(admitted(:functions), **Support::Examples::PATIENT, **options) }
  end

  def admitted(name, *rights)
    rights = %w[-eval -evalsha -script] if rights.empty?
    server.call("ACL", "SETUSER", name.to_s, "reset", "on", ">pw", "~*", "&*", "+@all", *rights)
    server.url(user: name.to_s, password: "pw")
  end

  def libraries =
    server.call("FUNCTION", "LIST").map { |library| library[1] || library["library_name"] }

  describe "as any other", :slow do
    it_behaves_like "a store"
  end

  describe "by itself" do
    let(:key) { "functions:#{SecureRandom.hex(8)}" }
    let(:commands) { server.call("INFO", "commandstats") }

    before { server.call("FUNCTION", "FLUSH") && server.call("CONFIG", "RESETSTAT") }

    it "loads one library once, and calls it from then on" do
      3.times { |n| store.acquire("#{key}:#{n}", ttl: 30, &:extend) }
      expect(libraries).to match([/\Aplock_\h{8}\z/])
      expect(commands).to match(/cmdstat_function\|load:calls=1,/)
      # two connections may try scripts at the same time
      expect(commands).to match(/cmdstat_evalsha:calls=0,.*rejected_calls=[12],/)
    end

    it "loads it again when the server has lost it while a lease was held" do
      store.acquire(key, ttl: 30) do |lease|
        server.call("FUNCTION", "FLUSH")
        expect(lease.extend).to be(lease)
        server.call("FUNCTION", "FLUSH")
      end
      expect(store.status(key)).not_to be_held
    end

    it "releases while the server has no memory left" do
      lease = store.acquire(key, ttl: 30)
      server.call("CONFIG", "SET", "maxmemory", "1")
      expect(lease.release).to be(true)
      expect { store.acquire(key) }.to raise_error(an_object_having_attributes(code: :oom))
    ensure
      server.call("CONFIG", "SET", "maxmemory", "0")
    end

    it "shares its locks with processes that call scripts" do
      scripts = open_store(server.url)
      lease = scripts.acquire(key, ttl: 30)
      waiter = background { store.acquire(key, ttl: 30, wait: 20, &:fence) }
      eventually { scripts.status(key).waiters.any? }
      lease.release
      expect(waiter.value).to be > lease.fence
      expect(store.acquire(key, ttl: 30) { scripts.try_acquire(key) }).to be_nil
    end

    it "leaves nothing behind if the reply to its request is lost" do
      gate = proxy(server)
      url = admitted(:functions).sub(":#{server.port}", ":#{gate.port}")
      store = used(open_store(url, attempt_timeout: 0.2))
      gate.swallow(:reply, after: "FCALL", connections: 1)
      expect { store.acquire(key, ttl: 30, wait: 0) }.to raise_error(Plock::UnavailableError)
      gate.clear
      eventually { !store.status(key).held? }
    end

    it "says which rights are missing if functions are not allowed either" do
      store = open_store(admitted(:neither, "-eval", "-evalsha", "-fcall"))
      expect { store.acquire(key) }
        .to raise_error(Plock::PermissionError, /EVALSHA \(or FCALL, from Redis 7 on\)/)
    end

    it "names the right that is missing to load the library" do
      store = open_store(admitted(:no_load, "-eval", "-evalsha", "-function|load"))
      expect { store.acquire(key) }.to raise_error(Plock::PermissionError, /function\|load/)
    end

    it "releases in the background, in order on the wire" do
      store = used(open_store(admitted(:functions), release: :background))
      3.times { expect(store.acquire(key, ttl: 30) { :ran }).to eq(:ran) }
      eventually { !store.status(key).held? }
    end
  end
end
