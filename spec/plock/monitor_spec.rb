# frozen_string_literal: true

require "redis"
require "spec_helper"

# The contract (support/store_contract/monitors.rb) tests the behaviour that all stores share.
RSpec.describe Plock::Monitor do
  let(:url) { shared_redis.unix_url }
  let(:key) { "monitor:#{SecureRandom.hex(8)}" }

  it "keeps processes apart" do
    counter = "#{key}:inside"
    url
    processes = Array.new(4) do
      child do
        monitor = described_class.new(key, store: Plock::Store.open(url), wait: 30)
        redis = Redis.new(path: shared_redis.unix_path)
        Array
          .new(15) do
            monitor.synchronize do
              monitor.synchronize { redis.incr(counter).tap { redis.decr(counter) } }
            end
          end
          .uniq
      end
    end
    expect(processes.map(&:result)).to eq([[1]] * 4)
  end

  it "lets the next process in when the one inside is killed" do
    url
    inside = child do |parent|
      described_class
        .new(key, store: Plock::Store.open(url), ttl: 1)
        .synchronize { parent.tell(:inside) && parent.hear }
    end
    inside.hear
    inside.signal(:KILL)
    inside.wait
    expect(
      described_class.new(key, store: open_store(url), wait: 20).synchronize { :entered }
    ).to be(:entered)
  end

  it "is of the default store, looked for when it is entered" do
    monitor = described_class.new(key)
    Plock::Testing.install do |store|
      expect(monitor.synchronize { [store.status(key).held?, monitor.mon_locked?] }).to eq(
        [true, true]
      )
      expect(monitor.mon_locked?).to be(false)
    end
  ensure
    Plock.reset!
  end
end
