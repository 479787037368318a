# frozen_string_literal: true

RSpec.shared_examples "a store that tells of events" do
  long = Support::StoreContract::LONG

  describe "events" do
    def names(events) = events.map(&:name)

    it "acquire and release, with durations, fence, label and a digest of the key" do
      fence = nil
      events =
        events_of { store.acquire(key, ttl: 7, label: "why") { |lease| fence = lease.fence } }
      expect(names(events)).to eq(%i[acquire release])
      expect(events).to all(
        have_attributes(label: "why", fence: fence, duration: be_between(0.0, 5.0))
      )
      expect(events.map(&:key_digest)).to all(match(/\A\h{64}\z/))
      expect(events.map(&:details)).to eq([{ ttl: 7.0 }, { released: true }])
      expect(events.map(&:inspect).join).not_to include(key)
    end

    it "contended, if another caller held it at first" do
      events = events_of(/acquire|contended/) do |heard|
        lease = hold(ttl: long)
        heard.pop
        waiter = line_up(1) { nil }.first
        lease.release
        waiter.join
      end
      expect(names(events)).to eq(%i[contended acquire])
      expect(events.map(&:duration)).to all(be > 0)
    end

    it "timeout" do
      lease = hold(ttl: long)
      took = nil
      events = events_of { took = elapsed { store.try_acquire(key, wait: 0.02) } }
      expect(names(events)).to eq(%i[contended timeout])
      expect(events.last).to have_attributes(
        fence: nil,
        duration: be_between(0.02, took),
        details: {
          wait: 0.02
        }
      )
      lease.release
    end

    it "lost, once" do
      events = events_of(:lost) do |heard|
        lease = hold(ttl: long, on_lost: ->(_) {})
        store.break(key)
        eventually { !heard.empty? }
        lease.release
      end
      expect(events).to match([have_attributes(name: :lost, fence: be_an(Integer))])
    end

    it "release of a lease that was lost says so" do
      events = events_of do
        lease = hold(ttl: long)
        store.break(key)
        lease.release
      end
      expect(names(events)).to eq(%i[acquire lost release])
      expect(events.last.details).to eq({ released: false })
    end

    it "renew" do
      events = events_of("renew") do |heard|
        store.acquire(key, ttl: renewed, renew: true) do
          eventually(8 * renewed) { heard.size >= 2 }
        end
      end
      expect(events).to all(
        have_attributes(name: :renew, duration: be_between(0.0, renewed), fence: be_an(Integer))
      )
    end

    it "are not told to those who listen no more" do
      heard = []
      subscription = Plock.subscribe { |event| heard << event }
      expect(Plock.unsubscribe(subscription)).to be(true)
      expect(Plock.unsubscribe(subscription)).to be(false)
      store.acquire(key) { nil }
      expect(heard).to be_empty
    end

    it "do not let a subscriber's exception into the block" do
      heard = warnings do
        subscription = Plock.subscribe(:acquire) { raise IOError, "the subscriber's own" }
        expect(store.acquire(key) { :value }).to be(:value)
      ensure
        Plock.unsubscribe(subscription)
      end
      expect(heard).to match([/a subscriber to acquire raised IOError: the subscriber's own/])
      expect_free
    end
  end
end
