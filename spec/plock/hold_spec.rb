# frozen_string_literal: true

require "spec_helper"
require "support/failures"

RSpec.describe "Holding" do
  let(:store) { open_store }
  let(:key) { unique_key }

  def events = @events ||= []

  def report = ->(*event) { events << event }

  def value = shared_redis.call("GET", key)

  describe Plock::Store, "#hold" do
    it "yields a lease that is valid as long as the block lasts" do
      kept = nil
      result = store.hold(key, 3_000, 1.0, nil) do |lease|
        kept = lease
        expect(lease).to be_valid
        expect(lease).to have_attributes(key: key, token: value, ttl: 3.0)
        :value
      end
      expect(result).to be(:value)
      expect(kept).not_to be_valid
      expect(value).to be_nil
    end

    it "numbers each lease higher than the one before" do
      fences = Array.new(20) { store.hold(key, 3_000, 1.0, nil, &:fence) }
      expect(fences).to eq(fences.uniq.sort)
    end

    it "accepts as a key an object with to_str, and can name it" do
      name = key
      like_a_string = Object.new
      like_a_string.define_singleton_method(:to_str) { name }
      shared_redis.call("SET", key, "somebody", "PX", 5_000)
      expect { store.hold(like_a_string, 3_000, 0.0, nil) { :never } }.to raise_error(
        Plock::TimeoutError, /#{Regexp.escape(key)}/
      )
    end

    it "reports an overrun", :timing do
      store.hold(key, 50, 1.0, report) { sleep 0.06 }
      expect(events).to match([[:overrun, key, be_between(0.06, 5), 0.05]])
    end

    [4, 0, -1, 366 * 86_400_000 + 1, Float::NAN, Float::INFINITY].each do |ttl|
      it "refuses a ttl of #{ttl} ms" do
        expect { store.hold(key, ttl, 1.0, nil) { :never } }.to raise_error(
          ArgumentError, /time to live/
        )
      end
    end
  end

  describe Plock::Store, "#hold_digest" do
    let(:key) { Plock.store_key("app:", "name", "secret") }

    def hold(wait: 1.0, ttl_ms: 3_000, report: self.report, &block)
      store.hold_digest("app:", "name", "secret", ttl_ms, wait, report, &block)
    end

    before { shared_redis.call("DEL", key) }

    it "locks the key's digest and yields the token" do
      result = hold do |token|
        expect(token).to eq(value)
        :value
      end
      expect(result).to be(:value)
      expect(value).to be_nil
      expect(events).to be_empty
    end

    it "returns UNACQUIRED, and does not run the block, if another owner holds the key" do
      shared_redis.call("SET", key, "somebody", "PX", 5_000)
      expect(hold(wait: 0.0) { raise "entered" }).to be(Plock::Store::UNACQUIRED)
      expect(events).to be_empty
      shared_redis.call("DEL", key)
    end

    it "reports a failure before it returns UNACQUIRED" do
      absent = open_store("redis://127.0.0.1:1")
      expect(absent.hold_digest("app:", "name", nil, 3_000, 0.0, report) { raise "entered" }).to be(
        Plock::Store::UNACQUIRED
      )
      expect(events).to match(
        [[:acquire, have_attributes(class: Plock::UnavailableError, code: :connect)]]
      )
    end

    it "raises a failure that it has no report for" do
      absent = open_store("redis://127.0.0.1:1")
      expect {
        absent.hold_digest("app:", "name", nil, 3_000, 0.0, nil) { raise "entered" }
      }.to raise_error(Plock::UnavailableError)
    end

    it "lets the block raise even the store's errors" do
      expect { hold { raise Plock::TimeoutError, "the block's own" } }.to raise_error(
        Plock::TimeoutError, "the block's own"
      )
      expect(value).to be_nil
    end

    it "reports an overrun by the caller's name for the key", :timing do
      hold(ttl_ms: 50) { sleep 0.06 }
      expect(events).to match([[:overrun, "name", be_between(0.06, 5), 0.05]])
    end

    it "refuses a prefix that is too long" do
      expect { store.hold_digest("p" * 65, "k", nil, 3_000, 1.0, nil) { :never } }.to raise_error(
        ArgumentError, /64 bytes/
      )
    end

    it "demands a block" do
      expect { store.hold_digest("app:", "k", nil, 3_000, 1.0, nil) }.to raise_error(LocalJumpError)
    end
  end
end
