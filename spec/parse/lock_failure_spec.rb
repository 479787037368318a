# frozen_string_literal: true

require "support/failures"
require_relative "parse_context"

# Failures as an application sees them. Each failed attempt has one documented error and one
# documented warning. The block never runs without the lock.
RSpec.describe Parse::Lock, "when something fails" do
  include_context "with Parse"
  include Support::Failures

  let(:gate) { proxy }
  let(:timeout) { Parse::Lock::TimeoutError }

  def failing(wait)
    heard =
      warnings do
        expect { acquire(wait: wait) { raise "entered" } }.to raise_error(
          timeout, /\AParse::Lock.acquire: could/
        )
      end
    expect(heard).not_to be_empty
    heard
  end

  {
    "a server that refuses connections" => ["UnavailableError", ->(gate) { gate.refuse }],
    "a server that accepts and is silent" => ["UnavailableError", ->(gate) { gate.silent }],
    "a server whose replies are lost" => ["UnavailableError", ->(gate) { gate.swallow(:reply) }],
    "a server that answers byte by byte" =>
      ["UnavailableError", ->(gate) { gate.dribble(:reply, 0.1) }],
    "a server that closes in mid-reply" =>
      ["UnavailableError", ->(gate) { gate.cut(:reply, after_bytes: 2) }],
    "a server that answers garbage" => ["ProtocolError", ->(gate) { gate.replace("garbage\r\n") }],
    "a server that announces 2147483647 values" =>
      ["ProtocolError", ->(gate) { gate.replace("*2147483647\r\n") }],
    "a server that announces a gibibyte" =>
      ["ProtocolError", ->(gate) { gate.replace("$1073741824\r\n") }]
  }.each do |day, (error, trouble)|
    context "with #{day}" do
      before do
        Parse.synchronize_create_store = gate.url
        trouble.call(gate)
      end

      it "warns of each attempt, raises TimeoutError, and serves when the day is over" do
        expect(failing(0)).to all(
          match(/\A\[Parse::LockBackend\] acquire error \(Plock::#{error}\): ./)
        )
        gate.clear
        gate.forward
        gate.disconnect
        # A late warning may come from an attempt on the connection that was just cut.
        warnings { expect(acquire(wait: 5) { held? }).to be(true) }
        eventually { !held? }
      end

      it "ends by its budget", :timing do
        within_budget(Support::Failures::ATTEMPT_TIMEOUT) { failing(0) }
        within_budget(0.3) { failing(0.3) }
      end
    end
  end

  it "with a wrong password: retries and warns until the wait ends, " \
     "and acquires once it is right", :timing do
    server = redis_server(:password)
    Parse.synchronize_create_store = server.url(password: "guess")
    for_as_long_as(0.3) { expect(failing(0.3).size).to be >= 3 }
    waiting = nil
    heard = warnings do
      waiting = background { acquire(wait: 20) { :inside } }
      eventually { server.call("INFO", "commandstats")[/cmdstat_auth:calls=(\d+)/, 1].to_i > 6 }
      server.call("CONFIG", "SET", "requirepass", "guess")
      expect(waiting.value).to be(:inside)
    end
    expect(heard).to all(include("acquire error (Plock::AuthenticationError)"))
  end

  it "with a server that hangs during the block: returns the value, " \
     "and warns about the release" do
    server = redis_server
    Parse.synchronize_create_store = server.url
    acquire { :warm }
    heard = warnings { expect(acquire { server.stop_process && :value }).to be(:value) }
    expect(heard).to contain_exactly(
      /\A\[Parse::LockBackend\] release error \(Plock::UnavailableError\): ./
    )
    server.continue_process
    eventually { server.call("EXISTS", store_key).zero? }
    expect(acquire { :again }).to be(:again)
  ensure
    server&.continue_process
  end

  it "with a lock that was lost and retaken during the block: " \
     "leaves the new holder's lock alone" do
    use_redis
    other = SecureRandom.uuid
    acquire { shared_redis.call("SET", store_key, other, "EX", 30) }
    expect(shared_redis.call("GET", store_key)).to eq(other)
  end

  it "with no descriptor left in the process: warns and raises TimeoutError, " \
     "and the next call works" do
    use_redis
    Parse.const_get(:LockBackend) # loads it now, because loading needs a descriptor
    expect(in_child do
      refused = nil
      heard = warnings do
        without_descriptors { acquire(wait: 0) { :never } }
      rescue Parse::Lock::TimeoutError => e
        refused = e.message
      end
      [refused, heard, acquire { :entered }]
    end).to match([/could not acquire/, [/acquire error \(Plock::UnavailableError\): ./], :entered])
  end
end
