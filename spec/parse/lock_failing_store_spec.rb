# frozen_string_literal: true

require_relative "parse_context"

RSpec.describe Parse::Lock, "with a store that cannot serve" do
  include_context "with Parse"

  describe "a store that fails" do
    it "never enters the block: each attempt is warned of until patience ends" do
      Parse.synchronize_create_store = "redis://127.0.0.1:1"
      heard = warnings do
        expect { acquire(wait: 0) { raise "entered" } }.to raise_error(
          Parse::Lock::TimeoutError, /within 0.0s/
        )
      end
      expect(heard).to include(
        /\A\[Parse::LockBackend\] acquire error \(Plock::UnavailableError\): ./
      )
    end

    it "never enters the block where it refuses the password" do
      Parse.synchronize_create_store = redis_server(:password).url(password: "wrong")
      heard = warnings do
        expect { acquire(wait: 0.2) { raise "entered" } }.to raise_error(Parse::Lock::TimeoutError)
      end
      expect(heard).to include(
        /\A\[Parse::LockBackend\] acquire error \(Plock::AuthenticationError\): ./
      )
      expect(heard.join).not_to include("wrong")
    end

    it "on release is warned of, and the block's value is returned" do
      server = redis_server
      Parse.synchronize_create_store = server.url
      value = nil
      heard = warnings do
        value = acquire do
          server.kill
          :value
        end
      end
      expect(value).to be(:value)
      expect(heard).to contain_exactly(
        /\A\[Parse::LockBackend\] release error \(Plock::UnavailableError\): ./
      )
    end

    it "serves again after its recovery" do
      server = redis_server
      Parse.synchronize_create_store = server.url
      acquire { :first }
      server.kill
      warnings { expect { acquire(wait: 0) { :never } }.to raise_error(Parse::Lock::TimeoutError) }
      server.restart
      warnings { expect(acquire(wait: 5) { :again }).to be(:again) }
    end
  end

  describe "a store that is described wrongly" do
    it "raises Plock::ConfigurationError at once" do
      Parse.synchronize_create_store = "redis://127.0.0.1:sesame"
      expect { acquire(on_degraded: :proceed) { :never } }.to raise_error(Plock::ConfigurationError)
    end

    it "raises Plock::UnsupportedError where plock cannot use it" do
      Parse.synchronize_create_store = stub_const("Redis::Distributed", Class.new).new
      expect { acquire(on_degraded: :proceed) { :never } }.to raise_error(
        Plock::UnsupportedError, /Redis::Distributed/
      )
    end
  end

  describe "a pool that has no client to lend" do
    it "is asked again until it has one" do
      pool = ConnectionPool.new(size: 1) { Redis.new(path: shared_redis.unix_path) }
      Parse.synchronize_create_store = pool
      lent = Queue.new
      done = Queue.new
      background { pool.with { lent.push(:lent) && done.pop } }
      lent.pop
      heard = warnings do
        thread = background { acquire(wait: 10) { held? } }
        await_sleep(thread)
        done.push(:back)
        expect(thread.value).to be(true)
      end
      expect(heard).to include(/\A\[Parse::LockBackend\] acquire error \(Plock::UnavailableError\)/)
      expect(held?).to be(false)
    end
  end
end
