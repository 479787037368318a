# frozen_string_literal: true

require "spec_helper"
require "support/lockers"
require "support/pgbouncer"

RSpec.describe Locker::Advisory, needs: Support::Postgres::PROGRAMS do
  include Support::Lockers

  let!(:key) { "advisory:#{SecureRandom.hex(8)}" }
  let!(:model) { Support::Lockers.model(:postgresql) }

  # Locker always uses the connection of ActiveRecord::Base.
  before { connect_base(model) }

  # The database's records of locks on this key. Other examples may hold other locks.
  def pg_locks(what, more = "")
    numbers = "classid = 1 AND objid = #{described_class.new(key).crc % (2**32)}"
    model.lease_connection.select_value(
      "SELECT #{what} FROM pg_locks WHERE locktype = 'advisory' AND #{numbers} #{more}"
    )
  end

  def waiting = pg_locks("count(*)", "AND NOT granted")

  def hold_in_another(**options)
    holder = child do |parent|
      [:ran, described_class.run(key, options) { parent.tell(:held) && parent.hear }]
    rescue described_class::LockConnectionLost
      [:lost]
    end
    holder.hear
    holder
  end

  it "says whether the block has run" do
    expect(
      described_class.run(key) do
        described_class.run(key) { raise "entered" } && raise("re-entered")
      end
    ).to be(true)
    holder = hold_in_another
    expect(described_class.run(key) { raise "entered" }).to be(false)
    expect(described_class.run("#{key}:other") { nil }).to be(true)
    expect(described_class.run(key, lockspace: 2) { nil }).to be(true)
    holder.tell(:go)
    expect(holder.result).to eq([:ran, true])
    expect(described_class.run(key) { nil }).to be(true)
  end

  it "says so even if the database's refusal comes late" do
    holder = hold_in_another
    line = proxy(["127.0.0.1", Support::Postgres.shared.port])
    far = Support::Postgres.shared.tcp_config(port: line.port)
    connect_base(Support::Lockers.connect("Late#{SecureRandom.hex(4)}", far))
    described_class.run("#{key}:other") { nil } # connects before the proxy delays replies
    line.delay(:reply, 0.6)
    patience = { blocking: true, block_timeout: 1 }
    expect(described_class.run(key, patience) { raise "entered" }).to be(false)
    holder.tell(:go)
  end

  it "swallows a Rollback of its block, as the original's own transaction does" do
    went_on = model.transaction do
      expect(described_class.run(key) { raise ActiveRecord::Rollback }).to be_nil
      :went_on
    end
    expect(went_on).to be(:went_on)
    expect(described_class.run(key) { nil }).to be(true)
  end

  it "has the numbers that the gem of this name has" do
    expect(described_class.new("foo")).to have_attributes(
      key: "foo", crc: -1_938_594_527, lockspace: 1, blocking: false, locked: false
    )
    rows = -> do
      model.lease_connection.select_rows(
        "SELECT classid, objid, objsubid FROM pg_locks WHERE locktype = 'advisory'"
      )
    end
    others = rows.call # locks of other examples
    described_class.run("foo") do
      expect(rows.call - others).to eq([[1, -1_938_594_527 % (2**32), 2]])
    end
  end

  it "excludes who takes them as the gem of this name does" do
    crc = described_class.new(key).crc
    take = -> { model.lease_connection.select_value("SELECT pg_try_advisory_xact_lock(1, #{crc})") }
    described_class.run(key) { expect(model.transaction { take.call }).to be(false) }
    model.transaction do
      expect(take.call).to be(true)
      expect(described_class.run(key) { raise "entered" }).to be(false)
    end
  end

  it "refuses what cannot be right" do
    expect { described_class.new(:key) }.to raise_error(ArgumentError, "key must be a string")
    [2**31, -2**31 - 1, "1"].each do |number|
      expect { described_class.new("key", lockspace: number) }.to raise_error(
        ArgumentError, /:lockspace option must be an integer between/
      )
    end
    expect { described_class.new("key", timeout: 1) }.to raise_error(
      ArgumentError, /unknown option: :timeout/
    )
    expect { described_class.run("key") }.to raise_error(ArgumentError, /block/)
  end

  it "waits in the database, as long as it is to" do
    holder = hold_in_another
    took =
      elapsed do
        expect(
          described_class.run(key, blocking: true, block_timeout: 0.3) { raise "entered" }
        ).to be(false)
      end
    expect(took).to be >= 0.3
    waiter = background { described_class.run(key, blocking: true) { :entered } }
    eventually { waiting == 1 }
    holder.tell(:go)
    expect(waiter.join(10)&.value).to be(true)
  end

  it "asks again and again where it is told to" do
    holder = hold_in_another
    waiter =
      background { described_class.run(key, blocking: true, block_spin_wait: 0.01) { :entered } }
    await_sleep(waiter)
    expect(waiting).to be_zero
    holder.tell(:go)
    expect(waiter.join(10)&.value).to be(true)
  end

  it "works through a pooler that lends a connection to each transaction",
     needs: Support::Pgbouncer::PROGRAMS do
    pooler = discard(Support::Pgbouncer.new(Support::Postgres.shared, :transaction).start, :stop)
    pooled = Support::Databases.connect("Pooled#{SecureRandom.hex(4)}", pooler.config)
    connect_base(pooled)
    described_class.run(key, blocking: true) do
      expect(in_child { described_class.run(key) { raise "entered" } }).to be(false)
    end
    expect(described_class.run(key) { nil }).to be(true)
    expect(pg_locks("count(*)")).to be_zero
  end

  it "raises LockConnectionLost in the block when the connection is cut" do
    holder = hold_in_another
    pg_locks("pg_terminate_backend(pid)")
    expect(holder.result).to eq([:lost])
    expect(described_class.run(key, blocking: true, block_timeout: 5) { nil }).to be(true)
  end

  it "is free when its holder is killed, and a waiter acquires it" do
    holder = hold_in_another
    waiter = background { described_class.run(key, blocking: true) { nil } }
    await_sleep(waiter)
    holder.signal(:KILL)
    expect(waiter.join(10)&.value).to be(true)
  end

  it "leaves nothing behind if a waiter is interrupted" do
    holder = hold_in_another
    expect {
      Timeout.timeout(0.2) { described_class.run(key, blocking: true) { raise "entered" } }
    }.to raise_error(Timeout::Error)
    thread = background { described_class.run(key, blocking: true) { raise "entered" } }
    eventually { waiting == 1 }
    thread.kill.join(5)
    holder.tell(:go) && holder.result
    eventually { described_class.run(key) { nil } }
    expect(pg_locks("count(*)")).to be_zero
  end
end

RSpec.describe Locker::Advisory, "on another database" do
  include Support::Lockers

  it "says that it needs PostgreSQL" do
    connect_base(Support::Databases.model(:sqlite))
    expect { described_class.run("key") { nil } }.to raise_error(
      Plock::UnsupportedError, /PostgreSQL/
    )
  end
end
