# frozen_string_literal: true

require "spec_helper"
require "support/database_examples"
require "plock/store/database/postgresql_tables"

RSpec.describe Plock::Store::Database::PostgresqlTables, needs: Support::Postgres::PROGRAMS do
  include Support::DatabaseExamples

  let!(:key) { "tables:#{SecureRandom.hex(8)}" }
  let!(:site) do
    database_store(Support::Databases.model(:postgresql)).instance_variable_get(:@site)
  end
  let(:tables) { site.tables }
  let(:connection) { opened }

  def opened = site.connections.open.tap { |one| discarded << [one, :close] }

  def soon = Plock::Clock.now + 5

  # The server process of a connection that listens. With `older: true`, the process does not hold
  # the lock that announces it, as with older versions of plock.
  def listener(older: false)
    one = opened
    tables.announce_listener(one, soon) unless older
    one.server_id
  end

  def ended(process)
    connection.run("SELECT pg_terminate_backend($1, 5000)", process, soon)
    process
  end

  # Acquires the key if it is free, or queues for it.
  def ask(token, listener)
    holder = Plock::Record.write("channel@#{listener}", nil, token)
    tables.ask(connection, key, token, nil, 30_000_000, 20_000_000, holder, true, soon)
  end

  # Releases the key while a waiter waits for it through each of these listeners.
  def free_for(*listeners)
    ask("#{key}:holder", listener)
    listeners.each_with_index { |one, number| ask("#{key}:#{number}", one) }
    yield if block_given?
    tables.release(connection, key, "#{key}:holder", 0, soon)
  end

  def claim(number)
    !tables.claim(connection, key, "#{key}:#{number}", 30_000_000, soon).nil?
  end

  it "lets a waiter claim the key, but not one that came later" do
    free_for(listener, listener)
    expect([claim(1), claim(0)]).to eq([false, true])
  end

  it "passes over an earlier waiter whose process has ended, and no other" do
    free_for(ended(listener), listener(older: true), listener)
    expect([claim(2), claim(1)]).to eq([false, true])
  end

  it "lets a waiter claim the key whose own listener was cut just now" do
    free_for(listener, listener) { ask("#{key}:0", ended(listener)) }
    expect(claim(0)).to be(true)
  end

  it "looks for the process of a waiter only if the lock of its listener is free" do
    plans = [listener, listener(older: true)].map do |one|
      free = tables.send(:release_and_call_sql)
      ask("#{key}:holder", listener)
      ask("#{key}:0", one)
      plan = connection.run(
        "EXPLAIN (ANALYZE) #{free}", key, "#{key}:holder", "other", soon
      ).rows.flatten
      tables.settle(connection, key, "#{key}:0", soon)
      plan.grep(/pg_stat_get_activity/)
    end
    expect(plans).to match([[include("never executed")], [include("loops=1")]])
  end
end
