# frozen_string_literal: true

require "spec_helper"
require "plock/store/advisory"
require "support/pgbouncer"
require "support/store_in_database"

# For each scope, calls are interrupted at every fourth step. The specs of MySQL's drivers interrupt
# them at the other steps (advisory_contract_on_*_spec.rb).
{
  connection: [[], [1, 4]], transaction: [%i[downgrade], [2, 4]]
}.each do |scope, (besides, share_of_steps)|
  Support::StoreInDatabase.describe(
    "A store of advisory locks of a #{scope}", Plock::Store::Advisory::UNABLE + besides,
    postgresql: share_of_steps
  ) do |model, **options|
    Plock::Store::Advisory.new(
      model, scope: scope, pool_size: 70, **Support::Databases::PATIENT, **options
    )
  end
end

RSpec.describe Plock::Store::Advisory, "#break", needs: Support::Postgres::PROGRAMS do
  let(:store) do
    discard(
      described_class.new(Support::Databases.model(:postgresql), **Support::Databases::PATIENT),
      :close
    )
  end
  let(:key) { "advisory:#{SecureRandom.hex(8)}" }

  # Calls `before` and `after` just before and just after the database lists the key's holders.
  def around_the_look(before, after)
    allow(store.locks).to receive(:holders).and_wrap_original do |original, *arguments|
      before.call
      original.call(*arguments).tap { after.call }
    end
  end

  %i[before after].each do |came|
    it "leaves alone a lease that reuses a released lease's connection, " \
       "acquired #{came} the look began" do
      lease = other = nil
      take = -> { lease = store.acquire(key) }
      pass_on = -> { lease.release && other = discard(store.acquire("#{key}:other"), :release) }
      take.call if came == :before
      around_the_look(came == :after ? take : -> {}, pass_on)
      expect([store.break(key), other.valid?, other.release]).to eq([false, true, true])
    end
  end
end

RSpec.describe Plock::Store::Advisory, "#status", needs: Support::Postgres::PROGRAMS do
  let(:store) do
    discard(
      described_class.new(Support::Databases.model(:postgresql), **Support::Databases::PATIENT),
      :close
    )
  end

  # As soon as the database has executed a downgrade, a reader can enter and ask for the status.
  # The thread that downgrades may not have read the answer by then. So the status must come from
  # the database, and not from what that thread knows.
  it "knows from the database that a writer reads now" do
    lock = store.read_write_lock("downgraded")
    lock.write(ttl: 60) do |lease|
      grant = lease.hold.instance_variable_get(:@lease)
      expect { store.downgrade(grant) }.to change { lock.status.holders.map(&:mode) }.from(
        [:write]
      ).to([:read])
    end
  end
end

RSpec.describe Plock::Store::Advisory, "through a pooler",
               needs: [*Support::Postgres::PROGRAMS, *Support::Pgbouncer::PROGRAMS] do
  let(:direct) { store(Support::Databases.model(:postgresql)) }
  let(:key) { "pooled:#{SecureRandom.hex(8)}" }

  def store(model, **options) =
    discard(described_class.new(model, **Support::Databases::PATIENT, **options), :close)

  def pooled(mode)
    pooler = discard(Support::Pgbouncer.new(Support::Postgres.shared, mode).start, :stop)
    Support::Databases.connect("Pooled#{SecureRandom.hex(4)}", pooler.config)
  end

  it "refuses one that lends a connection to each transaction, and leaves no lock behind" do
    through = store(pooled(:transaction))
    expect { through.acquire(key) { raise "entered" } }.to raise_error(
      Plock::UnsupportedError, /pooler/
    )
    expect(direct.acquire(key, wait: 5) { :entered }).to be(:entered)
  end

  it "works through that with scope: :transaction" do
    through = store(pooled(:transaction), scope: :transaction)
    through.acquire(key) { expect(direct.try_acquire(key)).to be_nil }
    expect(direct.try_acquire(key) { :entered }).to be(:entered)
  end

  it "works through one that lends a connection to each client, " \
     "with a pool smaller than the number of callers" do
    through = store(pooled(:session), pool_size: 2)
    callers =
      Array.new(6) do |number|
        Thread.new do
          through.acquire("#{key}:#{number % 3}", wait: 10) do
            direct.status("#{key}:#{number % 3}").held?
          end
        end
      end
    expect(callers.map(&:value)).to all(be(true))
  end
end
