# frozen_string_literal: true

require "spec_helper"
require "support/database_examples"

RSpec.describe Plock::Store::Database, "in sessions that a model sets up in its own way" do
  include Support::DatabaseExamples

  let!(:key) { "session:#{SecureRandom.hex(8)}" }

  def store_for(model) = database_store(model, **Support::Databases::PATIENT)

  # Another model of the same database, with these options.
  def other(name, **options)
    Support::Databases.model(name) # creates the tables
    model_of(Support::Databases.config(name).merge(options))
  end

  %i[mysql2 trilogy].each do |name|
    { autocommit: 0, completion_type: 1 }.each do |setting, value|
      it "excludes others, and lets them in, with #{setting} = #{value} on #{name}",
         needs: Support::Databases::PROGRAMS[name] do
        store = store_for(other(name, variables: { setting => value }))
        others = store_for(Support::Databases.model(name))
        store.acquire(key, ttl: 30) do
          expect(others.try_acquire(key) { raise "entered" }).to be_nil
        end
        others.acquire(key, ttl: 30) do
          expect(store.try_acquire(key, wait: 0.1) { raise "entered" }).to be_nil
        end
        expect(store.acquire(key, ttl: 30, wait: 5) { :entered }).to be(:entered)
      end
    end
  end

  %i[mysql2 trilogy].each do |name|
    it "forgets places that nobody renews, with sql_safe_updates on #{name}",
       needs: Support::Databases::PROGRAMS[name] do
      store = store_for(other(name, variables: { sql_safe_updates: 1 }))
      model = Support::Databases.model(name)
      gone = "name, token, acquired_at, expires_at, holder"
      model.lease_connection.execute(
        "INSERT INTO plock_claims (#{gone}) VALUES ('#{key}', '#{key}', 1, 1, '')"
      )
      store.instance_variable_get(:@site).ask(:prune, by: monotonic + 20)
      left = "SELECT count(*) FROM plock_claims WHERE name = '#{key}'"
      expect(model.lease_connection.select_value(left)).to be_zero
    end
  end

  describe "and labels that their encodings do not have" do
    let(:label) { "nächtlich % 夜間 🎉 -" }

    def expect_label(model)
      store = store_for(model)
      store.acquire(key, ttl: 30, label: label) { expect(store.status(key).label).to eq(label) }
    end

    { mysql2: "utf8", trilogy: "latin1" }.each do |name, encoding|
      it "keeps them, with #{encoding} on #{name}", needs: Support::Databases::PROGRAMS[name] do
        expect_label(other(name, encoding: encoding))
      end
    end

    it "keeps them in a database of PostgreSQL with LATIN1",
       needs: Support::Databases::PROGRAMS[:postgresql] do
      database = "latin_#{SecureRandom.hex(4)}"
      Support::Databases.model(:postgresql).lease_connection.execute(
        "CREATE DATABASE #{database} TEMPLATE template0 ENCODING 'LATIN1'"
      )
      model = other(:postgresql, database: database, encoding: "unicode")
      Support::Databases.migrate(model)
      expect_label(model)
    end
  end
end
