# frozen_string_literal: true

require_relative "older_lock"
require_relative "parse_context"

# Processes of the older implementation and of plock contend for one key on one Redis.
RSpec.describe "Parse::Lock beside processes of the older implementation" do
  include_context "with Parse"

  shared_examples "they exclude one another" do
    # A process of the older implementation. It holds the lock until the example sends it a message.
    def older_holder
      holder = child do |parent|
        older.new(path).hold(store_key, ttl: 30) do |token|
          parent.tell(token)
          parent.hear
        end
      end
      @older_token = holder.hear
      holder
    end

    it "while an older one holds it, we wait, and then have it" do
      holder = older_holder
      expect { acquire(wait: 0) { :never } }.to raise_error(Parse::Lock::TimeoutError)
      waiter = await_sleep(background { acquire(wait: 20) { :mine } })
      holder.tell(:leave)
      expect(holder.result).to be(:leave)
      expect(waiter.value).to be(:mine)
    end

    it "while we hold it, an older one does not have it, and then has it" do
      waiter = acquire do
        expect(in_child { |_| older.new(path).hold(store_key, wait: 0) { :never } }).to be_nil
        child do |parent|
          parent.tell(:waits)
          older.new(path).hold(store_key, wait: 20) { :theirs }
        end.tap(&:hear)
      end
      expect(waiter.result).to be(:theirs)
    end

    it "its release is noticed within 100 ms", :timing do
      at_most(0.1) do
        holder = older_holder
        waiter = await_sleep(background { acquire(wait: 20) { monotonic } })
        eventually { shared_redis.call("ZCARD", "plock:1:{#{store_key}}:queue") == 1 }
        released = monotonic
        holder.tell(:leave)
        holder.result
        [waiter.value - released, 0].max
      end
    end

    it "when an older one dies, we have it after its time" do
      holder = child do |parent|
        older.new(path).hold(store_key, ttl: 1) { parent.tell(:in) && sleep }
        sleep
      end
      holder.hear
      holder.signal(:KILL)
      expect(acquire(wait: 10) { :mine }).to be(:mine)
    end

    it "a release of ours leaves the lock of an older one alone" do
      acquire(ttl: 30) do
        shared_redis.call("DEL", store_key) # as if our lease had expired
        older_holder
      end
      expect(held?).to be(true)
    end

    it "one at a time, three processes of each kind" do
      counter = "inside #{key}"
      visit = ->(redis) do
        overlaps = redis.incr(counter) > 1
        redis.decr(counter)
        overlaps ? 1 : 0
      end
      theirs = Array.new(3) do
        child do |_|
          redis = Redis.new(path: path)
          lock = older.new(path)
          Array.new(10) { lock.hold(store_key, wait: 20) { visit.call(redis) } }
        end
      end
      ours = Array.new(3) do
        child do |_|
          redis = Redis.new(path: path)
          Array.new(30) { acquire(wait: 20) { visit.call(redis) } }
        end
      end
      expect((theirs + ours).flat_map(&:result)).to eq([0] * 120)
    end
  end

  let(:path) { shared_redis.unix_path }

  before { store_key } # all processes must use the same one

  context "with a client of Redis" do
    let(:older) { OlderLock }

    before { Parse.synchronize_create_store = Redis.new(path: path) }

    include_examples "they exclude one another"

    it "both keep the plain token in the same key" do
      ours, stored =
        acquire { |token| [token, shared_redis.call("GET", OlderLock.store_key(key, secret))] }
      expect(stored).to eq(ours)
    end

    it "an older one can read our token and release by it" do
      acquire do |token|
        expect(OlderLock.new(path).__send__(:give_back, store_key, token)).to be(1)
      end
    end
  end

  context "with a Moneta store over Redis" do
    let(:older) { OlderLock::ThroughMoneta }

    before { Parse.synchronize_create_store = Moneta.new(:Redis, path: path) }

    include_examples "they exclude one another"

    it "both keep what Marshal makes of the token in the same key" do
      ours, stored = acquire { |token| [token, shared_redis.call("GET", store_key)] }
      expect(stored.b).to eq("\x04\bI\")#{ours}\x06:\x06EF".b)
      expect(Marshal.dump(SecureRandom.uuid).sub(/\h{8}-.*-\h{12}/n, ours).b).to eq(stored.b)
    end

    it "an older one can read our token" do
      ours, read = acquire { |token| [token, Moneta.new(:Redis, path: path)[store_key]] }
      expect(read).to eq(ours)
    end
  end
end
