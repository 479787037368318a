# frozen_string_literal: true

require "spec_helper"
require "plock/store/advisory"
require "support/advisory_server"
require "support/store_contract"

# Tests promises about patience: on servers with limits of their own, on frozen servers, and for
# callers that are fibers.
RSpec.describe Plock::Store::Advisory, "with patience" do
  include Support::StoreContract

  let!(:key) { "promise:#{SecureRandom.hex(8)}" }
  let(:direct) { advisory(Support::Databases.model(:postgresql)) }

  def advisory(model, **options) = discard(described_class.new(model, **options), :close)

  def model_of(config) = Support::Databases.connect("Model#{SecureRandom.hex(6)}", config)

  describe "on a PostgreSQL that limits its clients", needs: Support::Postgres::PROGRAMS do
    let(:server) { Support::AdvisoryServer.new(:postgresql) }

    {
      transaction: :idle_in_transaction_session_timeout, connection: :idle_session_timeout
    }.each do |scope, limit|
      it "scope: #{scope.inspect} keeps a lease through #{limit}, or refuses it by that name" do
        limited = advisory(server.model(variables: { limit => "200ms" }), scope: scope)
        lease = kept(limited.acquire(key, ttl: 5))
        server.pause(0.6)
        expect(direct.try_acquire(key, ttl: 5) { :entered }).to be_nil
        expect(lease).to be_valid
      rescue Plock::Error => e
        expect(e.message).to include(limit.to_s)
      end
    end

    %i[connection transaction].each do |scope|
      it "scope: #{scope.inspect} waits on where statement_timeout ends its statement" do
        hasty = advisory(server.model(variables: { statement_timeout: "200ms" }), scope: scope)
        lease = kept(direct.acquire(key, ttl: 30))
        waiter = background { hasty.acquire(key, wait: 10) { :entered } }
        eventually { direct.status(key).waiters.size == 1 }
        server.pause(0.5)
        lease.release
        expect(waiter.value).to be(:entered)
      end
    end
  end

  { postgresql: Support::Postgres, mysql2: Support::Mariadb }.each do |name, kind|
    it "counts no waiter of a namespace whose name differs in one character, on #{name}",
       needs: kind::PROGRAMS do
      stores =
        %w[my_app myXapp].map do |namespace|
          advisory(Support::Databases.model(name), namespace: namespace)
        end
      leases = stores.map { |store| kept(store.acquire("k", ttl: 30)) }
      waiter = background { stores.last.acquire("k", wait: 30) { :entered } }
      eventually { stores.last.status("k").waiters.size == 1 }
      expect(stores.first.status("k").waiters.size).to be(0)
      leases.each(&:release)
      expect(waiter.value).to be(:entered)
    end

    it "waits on #{name} with the longest patience of a caller", needs: kind::PROGRAMS do
      store = advisory(Support::Databases.model(name))
      lease = kept(store.acquire(key, ttl: 30))
      waiter = background { store.acquire(key, wait: 31_622_400) { :entered } }
      eventually { store.status(key).waiters.size == 1 }
      lease.release
      expect(waiter.value).to be(:entered)
    end
  end

  {
    postgresql: Support::Postgres, mysql2: Support::Mariadb, trilogy: Support::Mariadb
  }.each do |name, kind|
    describe "on a #{name} of its own", needs: kind::PROGRAMS do
      let(:server) { discard(kind.new.start, :stop) }
      let(:model) { model_of(name == :postgresql ? server.config : server.config(name.to_s)) }
      let(:store) { advisory(model) }

      it "a restart ends a lease before another caller has the key" do
        first = hold(ttl: 30)
        server.restart
        second = eventually(5) { acquired_again }
        expect(first: first.valid?, second: second.valid?).to eq(first: false, second: true)
        expect { first.check! }.to raise_error(Plock::LeaseLost)
      end

      def acquired_again
        kept(store.acquire(key, ttl: 30, wait: 1))
      rescue Plock::UnavailableError
        false
      end

      it "a server that stands still costs no more than wait:", :timing do
        store
        server.stop_process
        took = elapsed do
          expect { store.acquire(key, wait: 1) { nil } }.to raise_error(Plock::Error)
        end
        expect(took).to be_between(0.9, 1.4)
      ensure
        server.continue_process
      end

      it "a repeated attempt on a server that stands still ends by wait:", :timing do
        store = advisory(model, attempt_timeout: 0.5, unavailable_timeout: 30)
        server.stop_process
        within_budget(0.7, least: 0.7) do
          expect { store.acquire(key, wait: 0.7) { nil } }.to raise_error(Plock::UnavailableError)
        end
      ensure
        server.continue_process
      end
    end
  end

  Support::AdvisoryServer::NAMES.each do |name|
    describe "for fibers, on #{name}", :fibers, needs: Support::Databases::PROGRAMS[name] do
      let!(:server) { Support::AdvisoryServer.new(name) }

      it "with_timeout ends a wait for a connection of the pool by its own error" do
        store = advisory(server.model, pool_size: 1)
        lease = kept(store.acquire("#{key}:other", ttl: 30))
        expect do
          Sync do |task|
            task.with_timeout(0.1) { store.acquire(key, wait: 5) { raise "entered" } }
          end
        end.to raise_error(Async::TimeoutError)
        lease.release
        expect(store.acquire(key) { :entered }).to be(:entered)
      end

      it "a server that never greets holds up a fiber for connect_timeout only", :timing do
        line = proxy(server.address)
        line.silent
        store = advisory(server.model_through(line), attempt_timeout: 0.2, connect_timeout: 0.3)
        background { sleep(3) && line.disconnect }
        took = elapsed do
          expect do
            Sync { store.acquire(key, wait: 0) { nil } }
          end.to raise_error(Plock::UnavailableError)
        end
        expect(took).to be < 1.5
      end
    end
  end

  describe "with a listener that raises a ScriptError", needs: Support::Postgres::PROGRAMS do
    [NotImplementedError, LoadError].each do |kind|
      it "still runs the block (#{kind})" do
        listener = Plock.subscribe(:acquire) { raise kind, "from a listener" }
        ran = nil
        warnings { direct.acquire(key) { ran = true } }
        expect(ran).to be(true)
      ensure
        Plock.unsubscribe(listener)
      end
    end
  end
end
