# frozen_string_literal: true

require "spec_helper"
require "support/lockers"
require "support/pgbouncer"

RSpec.describe "Failures of Locker", needs: Support::Postgres::PROGRAMS do
  include Support::Lockers

  let!(:model) { Support::Lockers.model(:postgresql) }
  let!(:key) { "locker:#{SecureRandom.hex(8)}" }

  describe "beside the gem of this name" do
    let(:original) { Support::Lockers::Original }

    it "leaves its rows alone as long as they are held, and takes them over when they are not" do
      expect(original.get(model, key, "old", 30)).to be(true)
      expect(Locker.run(key, model: model) { raise "entered" }).to be(false)
      expect(original.release(model, key, "old")).to be(true)
      Locker.run(key, model: model) do |sequence|
        expect(sequence).to be(2)
        expect(original.get(model, key, "old", 30)).to be(false)
      end
      expect(original.get(model, key, "old", 0.2)).to be(true)
      expect(
        Locker.run(key, model: model, blocking: true) { |sequence| expect(sequence).to be(4) }
      ).to be(true)
    end

    it "sees within half a second a release without a notification", :timing do
      original.get(model, key, "old", 30)
      waiter = background { Locker.run(key, model: model, blocking: true) { nil } }
      await_sleep(waiter)
      original.release(model, key, "old")
      expect(elapsed { expect(waiter.join(5)&.value).to be(true) }).to be < 2
    end
  end

  it "calls who waits, in another process, at once", :timing do
    delays = Array.new(5) do |number|
      mine = "#{key}:#{number}"
      holder = child do |parent|
        Locker.run(mine, model: model) { parent.tell(:held) && parent.hear }
        Process.clock_gettime(Process::CLOCK_MONOTONIC)
      end
      holder.hear
      waiter = background { Locker.run(mine, model: model, blocking: true) { @came = monotonic } }
      eventually { Locker::Bell.of(model).instance_variable_get(:@listener).hearing? }
      await_sleep(waiter)
      holder.tell(:go)
      waiter.join(5)
      @came - holder.result
    end
    expect(delays.min).to be < 0.1
  end

  it "works through a pooler that lends a connection to each transaction, without notifications",
     needs: Support::Pgbouncer::PROGRAMS do
    pooler = discard(Support::Pgbouncer.new(Support::Postgres.shared, :transaction).start, :stop)
    pooled = Support::Lockers.connect("Pooled#{SecureRandom.hex(4)}", pooler.config)
    holder = hold_in_another(lock_for: 20, renew_every: 0.1)
    waiter =
      background do
        Locker.run(key, model: pooled, blocking: true) { |sequence| expect(sequence).to be(2) }
      end
    eventually { row.locked_until > row.locked_at + 20.1 } # renewed
    holder.tell(:go)
    expect(waiter.join(5)&.value).to be(true)
    expect(row.locked_by).to be_nil
  end

  it "a restart in mid-hold loses neither the renewal nor the exclusion" do
    server = discard(Support::Postgres.new.start, :stop)
    own = Support::Lockers.connect("Restarted#{SecureRandom.hex(4)}", server.config)
    own.connection_pool.disconnect!
    Locker.run(key, model: own, lock_for: 20, renew_every: 0.2) do
      before = own.uncached { own.find_by(key: key).locked_until }
      server.restart
      renewed = eventually(15) do
        own.uncached { own.find_by(key: key).locked_until > before + 1 }
      rescue ActiveRecord::ActiveRecordError
        own.connection_pool.disconnect!
        false
      end
      expect(renewed).to be(true)
      expect(in_child { Locker.run(key, model: own) { raise "entered" } }).to be(false)
    end
    expect(Locker.run(key, model: own) { nil }).to be(true)
  end

  it "releases when the database is back a row whose block ended meanwhile" do
    server = discard(Support::Postgres.new.start, :stop)
    own = Support::Lockers.connect("Back#{SecureRandom.hex(4)}", server.config)
    locker = Locker.new(key, model: own, lock_for: 60)
    heard = warnings { locker.run { server.restart } }
    expect(heard).to match([/could not be released/])
    eventually(15) { own.uncached { own.find_by(key: key).locked_by.nil? } }
    expect(locker.run { nil }).to be(true)
  end

  it "tells its block where the database is away until the time is over" do
    server = discard(Support::Postgres.new.start, :stop)
    own = Support::Lockers.connect("Away#{SecureRandom.hex(4)}", server.config)
    own.connection_pool.disconnect!
    heard = warnings do
      expect do
        Locker.run(key, model: own, lock_for: 1.5, renew_every: 0.2) { [server.kill, sleep(20)] }
      end.to raise_error(Locker::LockStolen, /could not be renewed/)
    end
    expect(heard).to match([/could not be released/])
  end

  it "tells its block where the database says nothing until the time is over" do
    line = proxy(["127.0.0.1", Support::Postgres.shared.port])
    model # makes the table
    far =
      Support::Lockers.connect(
        "Far#{SecureRandom.hex(4)}", Support::Postgres.shared.tcp_config(port: line.port)
      )
    far.connection_pool.disconnect!
    thread = background do
      Locker.run(key, model: far, lock_for: 2, renew_every: 0.2) do
        line.swallow(:reply)
        begin
          sleep
        ensure
          line.clear
          line.disconnect
        end
      end
    end
    warnings { expect { thread.join(30) }.to raise_error(Locker::LockStolen) }
  end

  it "needs no renewal within a transaction of the caller's, and is seen when that is committed" do
    model.transaction do
      Locker.run(key, model: model, lock_for: 0.4, renew_every: 0.1) { sleep(0.6) }
    end
    expect(row).to have_attributes(locked_by: nil, sequence: 1)
  end

  it "works in a child after a fork, with a listener of its own" do
    holder = hold_in_another
    warm = background { Locker.run(key, model: model, blocking: true) { nil } }
    eventually { Locker::Bell.of(model).instance_variable_get(:@listener).hearing? }
    waiter =
      child do |parent|
        parent.tell(:asks) && Locker.run(key, model: model, blocking: true) { :entered }
      end
    waiter.hear
    holder.tell(:go)
    expect([warm.join(10)&.value, waiter.result]).to eq([true, true])
  end

  it "keeps no place in the queue for a caller that is interrupted while it queues" do
    holder = hold_in_another
    lines = Locker::Bell.of(model).instance_variable_get(:@lines)
    allow(lines).to receive(:join).and_wrap_original do |join, *arguments|
      join.call(*arguments).tap { Thread.current.raise(Interrupt) }
    end
    expect { Locker.run(key, model: model, blocking: true) { raise "entered" } }.to raise_error(
      Interrupt
    )
    allow(lines).to receive(:join).and_call_original
    holder.tell(:go) && holder.result
    expect(
      background { Locker.run(key, model: model, blocking: true) { nil } }.join(5)&.value
    ).to be(true)
  end

  it "has no row for long that was asked for when an interrupt came" do
    model.create!(key: key)
    busy =
      child do |parent|
        model.transaction do
          model.where(key: key).update_all(locked_at: Time.now) && parent.tell(:in) && parent.hear
        end
      end
    busy.hear
    thread = background { Locker.run(key, model: model) { raise "entered" } }
    eventually do
      model.lease_connection.select_value("SELECT count(*) FROM pg_locks WHERE NOT granted") == 1
    end
    thread.kill
    busy.tell(:go)
    thread.join(5)
    eventually(15) { Locker.run(key, model: model) { nil } }
  end

  it "stops at once when a wait is interrupted between polls, even with no connection to spare" do
    holder = hold_in_another
    only =
      Support::Lockers.connect(
        "Only#{SecureRandom.hex(4)}", Support::Postgres.shared.config(pool: 1)
      )
    locker = Locker.new(key, model: only)
    looked, between = false, Queue.new
    allow(locker).to receive(:get).and_wrap_original do |get|
      next (between << true) && sleep if looked

      looked = true
      get.call
    end
    only.release_connection
    thread = background { only.lease_connection && locker.run(true) { raise "entered" } }
    eventually { !between.empty? }
    # the kill does not wait for a connection
    expect(elapsed { thread.kill.join }).to be < only.connection_pool.checkout_timeout
    holder.tell(:go)
  end

  it "does not run its block if the database answers too late, and gives the row back" do
    locker = Locker.new(key, model: model, lock_for: 0.2, renew_every: 0.1)
    allow(locker).to receive(:get).and_wrap_original { |get| get.call.tap { sleep(0.25) } }
    expect { locker.run { raise "entered" } }.to raise_error(Plock::UnavailableError)
    eventually(15) { row.locked_by.nil? }
  end

  it "can be interrupted where the database says nothing to a release" do
    line = proxy(["127.0.0.1", Support::Postgres.shared.port])
    far =
      Support::Lockers.connect(
        "Silent#{SecureRandom.hex(4)}", Support::Postgres.shared.tcp_config(port: line.port)
      )
    heard = warnings do
      took = elapsed do
        expect {
          Timeout.timeout(0.5) { Locker.run(key, model: far) { line.swallow(:reply) } }
        }.to raise_error(Timeout::Error)
      end
      expect(took).to be < 4
    end
    line.disconnect
    expect(heard).to match([/could not be released/])
  end
end
