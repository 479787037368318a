# frozen_string_literal: true

require "spec_helper"
require "plock/store/advisory"
require "support/advisory_server"
require "support/store_contract"

# Tests promises about the connections of this store, when they are lost, slow or interrupted.
Support::AdvisoryServer::NAMES.each do |name|
  RSpec.describe Plock::Store::Advisory, "on #{name}",
                 needs: Support::Databases::PROGRAMS[name] do
    include Support::StoreContract

    let!(:server) { Support::AdvisoryServer.new(name) }
    let!(:key) { "promise:#{SecureRandom.hex(8)}" }
    let(:store) { advisory(server.model) }
    let(:direct) { advisory(Support::Databases.model(name)) }

    def advisory(model, **options) = discard(described_class.new(model, **options), :close)

    # Has the server close all connections of the store, and waits until they are closed.
    def cut
      server.cut
      eventually { server.connections.empty? }
    end

    describe "when the server closes the holder's connection" do
      {
        "" => {}, " that is renewed" => { renew: true }, " with on_lost:" => { on_lost: ->(_) {} }
      }.each do |what, options|
        it "a lease#{what} is over before another caller has the key" do
          first = hold(ttl: 30, **options)
          cut
          second = kept(direct.acquire(key, ttl: 30, wait: 5))
          expect(first: first.valid?, second: second.valid?).to eq(first: false, second: true)
          expect(first).to be_lost
          expect { first.check! }.to raise_error(Plock::LeaseLost)
        end
      end

      it "on_lost: is called within 0.2 s", :timing do
        at_most(0.2) do
          told = Queue.new
          lease = store.acquire(key, ttl: 30, on_lost: ->(_) { told << monotonic })
          cut
          gone_at = monotonic
          sleep 0.002 while told.empty? && monotonic < gone_at + 0.4
          lease.release
          told.empty? ? Float::INFINITY : [told.pop - gone_at, 0.0].max
        end
      end

      it "on_lost: :raise ends the block" do
        finished = false
        warnings do
          expect do
            store.acquire(key, ttl: 30, on_lost: :raise) do
              cut
              sleep 5
              finished = true
            end
          end.to raise_error(Plock::LeaseLost)
        end
        expect(finished).to be(false)
      end

      it "20 lost leases leave no connection in memory, and end no thread by an error" do
        kinds = { postgresql: "PG::Connection", mysql2: "Mysql2::Client", trilogy: "Trilogy" }
        kind = kinds.fetch(name)
        errors = Queue.new
        tracing = TracePoint.new(:raise) do |point|
          next unless point.path.include?("/lib/plock/")

          errors << point.raised_exception if point.raised_exception.is_a?(ArgumentError)
        end
        before = count_alive(kind)
        tracing.enable
        Thread.new { lose_leases(20) }.join
        eventually(10.0, "connections of lost leases are kept") { count_alive(kind) <= before + 4 }
      ensure
        # A background thread ends after a second without work. The trace runs until then, so that
        # it also records errors at the thread's end.
        sleep 1.2
        tracing.disable
        expect(Array.new(errors.size) { errors.pop.full_message(highlight: false) }).to be_empty
      end

      def lose_leases(count)
        store = advisory(server.model, pool_size: count)
        leases = Array.new(count) { |number| store.acquire("#{key}:#{number}", ttl: 0.5) }
        cut
        eventually { leases.all?(&:lost?) }
      end

      def count_alive(name)
        GC.start
        ObjectSpace.each_object(Object.const_get(name)).count
      end
    end

    it "no block begins with a lease that is over because the answer was late" do
      line = proxy(server.address)
      slow = advisory(server.model_through(line), attempt_timeout: 5)
      slow.acquire(key) { nil }
      line.delay(:reply, 0.3)
      begun = []
      warnings do
        slow.acquire(key, ttl: 0.2, wait: 0) { |lease| begun << (lease.valid? ? :valid : :over) }
      rescue Plock::Error
        nil # an error would also be correct
      end
      expect(begun).not_to include(:over)
      line.clear
      eventually(5.0, "the key was left behind") { direct.try_acquire(key) { true } }
    end

    it "a lease is lost when the server does not answer a renewal within release_timeout" do
      line = proxy(server.address)
      slow = advisory(server.model_through(line), release_timeout: 0.2)
      lease = slow.acquire(key, ttl: 9, renew: true)
      ended_at = lease.valid_until
      line.swallow(:reply)
      eventually(20, "the lease is still held") { lease.lost? }
      expect(Plock::Clock.now).to be < ended_at
      line.clear
    end

    it "a lease that has expired gives its connection back when no thread asks on it" do
      lease = hold(ttl: 0.3, on_lost: ->(_) {})
      state = lease.hold.lease
      order, go = Array.new(2) { Queue.new }
      replace(state, :unlock) do |unlock, *arguments|
        order << :given_back
        unlock.call(*arguments)
      end
      asking = background do
        eventually { state.take_turn }
        go.pop
        order << :answered
        state.end_turn
      end
      eventually { state.ended == :lost }
      eventually do
        waits = Thread.list.any? { |it| it.name == "plock background calls" && it.stop? }
        waits || order.size.positive?
      end
      go << true
      asking.join
      eventually { order.size == 2 }
      expect(Array.new(2) { order.pop }).to eq(%i[answered given_back])
    end

    it "a break while the answer is under way ends in a lease or in an error of plock's" do
      line = proxy(server.address)
      breaker = child { |parent| break_while_asking(parent, server.model_through(line)) }
      breaker.hear # the child is connected
      line.hold(:reply, after: server.lock_word, connections: 1)
      breaker.tell(:ask)
      eventually { direct.status(key).held? }
      breaker.tell(:break)
      breaker.hear
      line.clear
      # The connection may end just as the block begins. Then the lease must report that it is
      # lost.
      expect(breaker.result).to match(/\Aentered with a (?:valid|lost) lease\z/).or(
        start_with("Plock::")
      )
    end

    # Runs in a child, because the driver may crash the process.
    def break_while_asking(parent, model)
      $stderr.reopen(File::NULL)
      store = described_class.new(model, attempt_timeout: 5)
      store.acquire("#{key}:other") { nil }
      parent.tell(:ready) && parent.hear
      asking = Thread.new { outcome(store) }
      parent.hear
      store.break(key)
      parent.tell(:broken)
      asking.value
    end

    def outcome(store)
      value = nil
      warnings do
        value = store.acquire(key, ttl: 30, wait: 3) do |lease|
          "entered with a #{lease.valid? ? "valid" : "lost"} lease"
        end
      end
      value
    rescue StandardError => e
      e.class.name
    end

    it "a call without patience ends when its attempt does, though the database does not answer",
       :timing do
      line = proxy(server.address)
      slow = advisory(server.model_through(line), attempt_timeout: 0.4)
      within(0.4 + 0.1) do
        line.clear
        slow.acquire(key) { nil }
        line.swallow(:reply)
        expect { slow.acquire(key, wait: 0) { raise "entered" } }.to raise_error(
          Plock::UnavailableError
        )
      end
      line.clear
    end

    describe "with interrupts" do
      let(:share_of_steps) { [1, 5] }

      # Turns the garbage collector off. It could close a connection that the store has left open.
      before { GC.disable }
      after { GC.enable }

      unless name == :trilogy # trilogy cannot be interrupted while it connects
        it "an acquire that is killed while it connects leaves no connection open" do
          line = proxy(server.address)
          slow = advisory(server.model_through(line))
          line.hold(:reply)
          thread = background { slow.acquire(key, wait: 5) { raise "entered" } }
          line.await(:request)
          thread.kill.join
          slow.close
          line.clear
          eventually(10.0, "a connection is left open") { line.open_connections.zero? }
        end
      end

      it "a store that is closed has no connection open, wherever an acquire was interrupted" do
        interrupted_everywhere(-> { store.acquire(key, ttl: 30) { nil } }) do
          store.close
          eventually(5.0, "a connection is left open") { server.connections.empty? }
        end
      end
    end
  end
end
