# frozen_string_literal: true

require "spec_helper"
require "support/database_examples"
require "support/pgbouncer"

RSpec.describe Plock::Store::Database, "behind a pooler that lends a connection to each " \
                                       "transaction",
               needs: [*Support::Postgres::PROGRAMS, *Support::Pgbouncer::PROGRAMS] do
  include Support::DatabaseExamples

  let(:key) { "pooled:#{SecureRandom.hex(8)}" }
  let(:direct) { Support::Databases.model(:postgresql) }
  let(:pooler) do
    direct && discard(Support::Pgbouncer.new(Support::Postgres.shared, :transaction).start, :stop)
  end
  let(:store) { database_store(model_of(pooler.config), **Support::Databases::PATIENT) }

  # Runs the block in a thread while another transaction has locked the key's row. Unlocks the row
  # after the database has refused one statement of the block. Returns the block's value.
  def refused_once(&block)
    refusals = Queue.new
    note = ->(*, payload) { refusals << true if payload[:name] == "Plock" }
    thread = nil
    with_row_locked(direct, store.config.store_key(key, Plock::Locking::Kind::LOCK)) do
      ActiveSupport::Notifications.subscribed(note, "sql.active_record") do
        thread = Thread.new(&block)
        thread.report_on_exception = false
        eventually(10) { !refusals.empty? }
      end
    end
    thread.value
  end

  it "extends a lease whose row another transaction had" do
    store.acquire(key, ttl: 60) do |lease|
      refused_once { lease.extend(ttl: 90) }
      expect(lease.remaining).to be > 60
    end
  end

  it "releases a lease whose row another transaction had" do
    lease = store.acquire(key, ttl: 60)
    refused_once { lease.release }
    expect(store.status(key)).not_to be_held
  end

  it "prepares no statements, since other clients get the connection" do
    model = model_of(pooler.config(prepared_statements: true))
    stores = Array.new(2) { database_store(model, **Support::Databases::PATIENT) }
    fences = stores.map { |one| one.acquire(key, ttl: 60) { one.status(key).fence } }
    expect(fences.uniq.size).to eq 2
  end
end
