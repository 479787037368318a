# frozen_string_literal: true

require "spec_helper"
require "tmpdir"

# Events that metrics, traces and logs need, and that the store contract does not test.
RSpec.describe Plock::Events do
  folder = nil
  before(:context) { folder = Dir.mktmpdir("plock-outcomes-") }
  after(:context) { FileUtils.rm_rf(folder) }

  def hear(*patterns)
    heard = Queue.new
    patterns.each do |pattern|
      subscription = Plock.subscribe(pattern) do |event|
        heard << event unless event.details[:expired] # leases of earlier examples
      end
      discard(-> { Plock.unsubscribe(subscription) }, :call)
    end
    heard
  end

  let(:key) { "outcome:#{SecureRandom.hex(8)}" }

  def all_of(heard) = Array.new(heard.size) { heard.pop }

  {
    "on Redis" => -> { shared_redis.unix_url },
    "in a local store" => -> { "local:#{folder}/locks" },
    "in memory" => -> { "memory:outcomes" }
  }.each do |place, url|
    describe place do
      let(:address) { instance_exec(&url) }
      let(:store) { used(open_store(address)) }

      def calls(heard) = all_of(heard).map { |event| [event.name, event.details] }

      it "tell of the begin and the end of each call, to those who name them" do
        store
        others = hear(nil)
        heard = hear(/wait_(begin|end)/)
        store.acquire(key, label: "why") { nil }
        lease = store.acquire(key)
        expect(store.try_acquire(key)).to be_nil
        lease.release
        begun = [:wait_begin, { keys: 1 }]
        outcomes = %i[acquired acquired timed_out]
        expect(calls(heard)).to eq(
          outcomes.flat_map { |outcome| [begun, [:wait_end, { keys: 1, outcome: outcome }]] }
        )
        expect(all_of(others).map(&:name)).not_to include(:wait_begin, :wait_end)
      end

      it "tell of the end of a call that is killed while it waits" do
        holder = store.acquire(key, ttl: 30)
        heard = hear(/wait_(begin|end)/)
        waiter = background do
          raise "an outer exception, which is not the reason"
        rescue RuntimeError
          store.acquire(key, wait: 30) { nil }
        end
        eventually { heard.size == 1 && waiter.stop? }
        waiter.kill.join
        expect(calls(heard)).to eq(
          [[:wait_begin, { keys: 1 }], [:wait_end, { keys: 1, outcome: :failed }]]
        )
        holder.release
      end

      {
        "raises what is no StandardError" => -> { raise Interrupt },
        "ends the thread" => -> { Thread.exit }
      }.each do |what, ending|
        it "tell all of the begin of a call, and then of its end, though a subscriber #{what}" do
          store
          first = Plock.subscribe(:wait_begin) { ending.call }
          heard = hear(/wait_(begin|end)/)
          caller = background { store.acquire(key) { raise "entered" } }
          begin
            caller.join
          rescue Interrupt
            error = { error: "Interrupt" }
          end
          expect(calls(heard)).to eq(
            [[:wait_begin, { keys: 1 }], [:wait_end, { keys: 1, outcome: :failed, **error.to_h }]]
          )
        ensure
          Plock.unsubscribe(first)
        end
      end

      it "tell of no end of a call that is interrupted before its begin is told" do
        store
        heard = hear(/wait_(begin|end)/)
        first = nil
        allow(described_class).to receive(:tell).and_wrap_original do |tell, *event, **rest, &begun|
          raise Interrupt if first.nil? && (first = event.first)

          tell.call(*event, **rest, &begun)
        end
        expect { store.acquire(key) { nil } }.to raise_error(Interrupt)
        expect([first, calls(heard)]).to eq([:wait_begin, []])
      end

      it "tell of one call for several keys, and of the error that ended it" do
        store
        heard = hear(/wait_(begin|end)/)
        store.acquire_all([key, "#{key}+"]) { nil }
        interrupted = Plock.subscribe(:acquire) { raise Interrupt }
        expect { store.acquire(key) { nil } }.to raise_error(Interrupt)
        Plock.unsubscribe(interrupted)
        expect(calls(heard)).to eq(
          [
            [:wait_begin, { keys: 2 }], [:wait_end, { keys: 2, outcome: :acquired }],
            [:wait_begin, { keys: 1 }],
            [:wait_end, { keys: 1, outcome: :failed, error: "Interrupt" }]
          ]
        )
        expect(store.status(key).held?).to be(false)
      end

      it "have the kind, the key and the lease, but show no key" do
        store
        heard = hear(/acquire|release/)
        store.semaphore(key, permits: 2).acquire { nil }
        store.read_write_lock(key).read { nil }
        store.once(key, within: 60) { nil }
        store.acquire_all([key]) { nil }
        events = all_of(heard)
        expect(events.map(&:kind)).to eq(
          %i[semaphore semaphore read_write read_write once once lock lock]
        )
        expect(events.map(&:key).uniq).to eq([key])
        expect(events.map(&:lease_id).each_slice(2).map(&:uniq)).to all(match([be_an(Integer)]))
        expect(events.map(&:lease_id).uniq.size).to be(4)
        expect(events.map { |event| "#{event.inspect} #{event.to_h}" }.join).not_to include(key)
      end

      it "tell of a lease that is handed over, and adopted" do
        lease = store.acquire(key, ttl: 30, label: "first")
        heard = hear(nil)
        dump = lease.dump
        store.adopt(dump, label: "second") { nil }
        events = all_of(heard)
        expect(events.map { |event| [event.name, event.label] }).to eq(
          [[:hand_over, "first"], [:adopt, "second"], [:release, "second"]]
        )
        expect(events.map(&:lease_id).tally.values).to eq([1, 2])
        expect(events[1].details).to eq({ ttl: 30.0 })
      end

      it "do not tell of a lease as forgotten that was released, though it was lost" do
        told = []
        subscription = Plock.subscribe(:abandoned) { |event| told << event.fence }
        discard(-> { Plock.unsubscribe(subscription) }, :call)
        released, forgotten = Thread.new do
          lost = store.acquire(key, ttl: 30)
          store.break(key)
          lost.release
          expired = store.acquire(key, ttl: 0.05)
          eventually { expired.lost? }
          [lost.fence, expired.fence]
        end.value
        eventually { GC.start || told.include?(forgotten) }
        expect(told).not_to include(released)
      end

      it "tell of a lease that was collected without a release" do
        heard = hear(:abandoned)
        fence = nil
        Thread.new { fence = store.acquire(key, ttl: 30).fence }.join
        warnings do
          eventually { GC.start || !store.status(key).held? }
          eventually { !heard.empty? }
        end
        expect(all_of(heard)).to match(
          [have_attributes(name: :abandoned, fence: fence, label: nil, kind: :lock)]
        )
      end

      it "tell of a group's release if an interrupt comes between its acquire and its block" do
        store
        heard = hear(/acquire|release/)
        other = "#{key}+"
        interrupted = Plock.subscribe(:acquire) { |event| raise Interrupt if event.key == other }
        expect { store.acquire_all([key, other]) { nil } }.to raise_error(Interrupt)
        Plock.unsubscribe(interrupted)
        told = all_of(heard).group_by(&:name).transform_values { |events| events.map(&:lease_id) }
        expect(told[:release]).to include(*told[:acquire])
      end
    end
  end

  describe "of a release that is interrupted" do
    let(:gate) { proxy }
    let(:store) { used(open_store(gate.url)) }
    let(:keys) { [key, "#{key}+"] }

    # Each of these ways acquires a lease, and calls its argument just before the release.
    let(:ways) do
      {
        "of a block" => ->(leaving) { store.acquire(key, label: "x") { leaving.call } },
        "of several keys" => ->(leaving) { store.acquire_all(keys, label: "x") { leaving.call } },
        "of a lease" => ->(leaving) do
          lease = store.acquire(key, label: "x")
          leaving.call
          lease.release
        end
      }
    end

    def hold_release
      gate.forget
      gate.hold(:request)
    end

    # Expects that each acquired lease has ended, and that its end was reported once.
    def expect_ends(heard, error)
      told = all_of(heard).group_by(&:name)
      expect(told.keys).to eq(%i[acquire release_failed])
      expect(told[:release_failed].map(&:lease_id)).to match_array(told[:acquire].map(&:lease_id))
      expect(told[:release_failed].map { |event| event.details[:error] }.uniq).to eq([error])
      eventually { keys.none? { |name| store.status(name).held? } }
    end

    # On Ruby 3.1, async has no hooks for plain sockets. So code other than plock's runs on a
    # thread of its own.
    def aside(&block) = Thread.new(&block).value

    ["of a block", "of several keys", "of a lease"].each do |way|
      it "tell that it failed, #{way} under a Fiber scheduler", :fibers do
        store
        heard = hear(nil)
        Sync do |task|
          leaving = Queue.new
          leave = -> do
            aside { hold_release }
            leaving << true
          end
          holder = task.async { ways.fetch(way).call(leave) }
          leaving.pop
          aside { gate.await(:request, "EVALSHA") }
          holder.stop
          aside { gate.clear }
          holder.wait
        end
        expect_ends(heard, Async::Stop.name) # async 2.46 has another name for it
      end

      it "tell that it failed, #{way} in a program whose signal handler raises" do
        store
        heard = hear(nil)
        before = trap(:USR1) { raise IOError, "a signal" }
        leaving = -> do
          hold_release
          background do
            gate.await(:request, "EVALSHA")
            Process.kill(:USR1, Process.pid)
          end
        end
        expect { ways.fetch(way).call(leaving) }.to raise_error(IOError, "a signal")
        gate.clear
        expect_ends(heard, "IOError")
      ensure
        trap(:USR1, before)
      end
    end

    it "tell it of all of several keys, even if a subscriber ends the thread" do
      heard = hear(/acquire|release/)
      errors = [Interrupt]
      ending = Plock.subscribe(:release) { raise errors.pop if errors.any? }
      expect { store.acquire_all(keys) { nil } }.to raise_error(Interrupt)
      Plock.unsubscribe(ending)
      told = all_of(heard).group_by(&:name).transform_values { |events| events.map(&:lease_id) }
      expect(told[:release]).to match_array(told[:acquire])
    end
  end

  describe "on a server that is out of reach" do
    let(:gate) { proxy }
    let(:spans) { { release_timeout: 0.05, command_timeout: 5, unavailable_timeout: 5 } }
    let(:store) { used(open_store(gate.url, **spans)) }

    it "tell of a release that failed: of a block, of several keys, and of a lease" do
      store
      heard = hear(:release_failed)
      warnings do
        store.acquire(key, label: "one") { gate.swallow_all(:request) }
        gate.clear
        store.acquire_all(["#{key}1", "#{key}2"], label: "two") { gate.swallow_all(:request) }
        gate.clear
        lease = store.acquire("#{key}3", ttl: 1, label: "three")
        gate.swallow_all(:request)
        expect { lease.release }.to raise_error(Plock::UnavailableError)
      end
      gate.clear
      told = all_of(heard).select(&:label)
      expect(told.map { |event| [event.label, event.details] }).to eq(
        %w[one two two three].map { |label| [label, { error: "Plock::UnavailableError" }] }
      )
    end

    it "tell of a release that failed after a call through C" do
      store
      heard = Queue.new
      warnings do
        store.acquire(key) do
          subscription = Plock.subscribe(:release_failed) { |event| heard << event }
          discard(-> { Plock.unsubscribe(subscription) }, :call)
          gate.swallow_all(:request)
        end
      end
      gate.clear
      expect(heard.pop.key).to eq(key)
    end

    it "tell that a call failed" do
      store
      heard = hear("wait_end")
      gate.refuse
      gate.disconnect
      expect { store.acquire(key, wait: 0.1) { nil } }.to raise_error(Plock::UnavailableError)
      gate.forward
      expect(all_of(heard).map(&:details)).to eq(
        [{ keys: 1, outcome: :failed, error: "Plock::UnavailableError" }]
      )
    end
  end

  describe "of a renewal" do
    let(:gate) { proxy }
    let(:store) { used(open_store(gate.url, command_timeout: 0.1)) }

    def renewals(heard) = all_of(heard).map { |event| event.details[:late] }

    it "say that it is late if less than a third of the TTL was left" do
      store
      heard = hear(:renew)
      store.acquire(key, ttl: 3, renew: true) do |lease|
        heard.pop # the first renewal, which is not late
        gate.refuse
        gate.disconnect
        eventually { lease.remaining < 0.9 }
        gate.forward
        late = heard.pop
        expect(late.details).to match({ late: true, left: be_between(0.0, 1.0) })
        expect(heard.pop.details).to match({ late: false, left: be > 1.0 })
      end
    end

    it "do not take a lease that was extended to a longer time for a late one" do
      store = used(open_store)
      heard = hear(:renew)
      store.acquire(key, ttl: 1.5, renew: true) do |lease|
        heard.pop
        lease.extend(ttl: 4.5)
        2.times { expect(heard.pop.details[:late]).to be(false) }
      end
    end
  end

  describe "of a release in the background" do
    it "tell of the loss that it finds" do
      store = used(open_store(shared_redis.unix_url, release: :background))
      other = used(open_store)
      # loads the script: otherwise, the first release would not be sent in the background
      store.acquire("#{key}+") { nil }
      heard = hear(/release|lost/)
      warnings do
        store.acquire(key, ttl: 30, label: "one") { other.break(key) }
        store.acquire(key, ttl: 30) { nil } # first reads the answer to the release above
        eventually { heard.size == 3 }
      end
      expect(all_of(heard)).to contain_exactly(
        have_attributes(name: :release, label: "one", details: { released: true }),
        have_attributes(name: :release, label: nil),
        have_attributes(name: :lost, label: nil, lease_id: nil, duration: 0.0, kind: :lock)
      )
    end
  end
end
