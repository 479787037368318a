# frozen_string_literal: true

require "spec_helper"
require "support/database_examples"

RSpec.describe Plock::Store::Database, "whose server only reads" do
  include Support::DatabaseExamples

  let(:key) { "read_only:#{SecureRandom.hex(8)}" }
  let(:role) { "reader_#{SecureRandom.hex(4)}" }
  let(:admin) { Support::Databases.model(:postgresql).lease_connection }

  # Makes new sessions read-only, as on a server that a failover has demoted.
  def only_read
    admin.execute("CREATE ROLE #{role} SUPERUSER LOGIN")
    admin.execute("ALTER ROLE #{role} SET default_transaction_read_only = on")
    yield
  ensure
    admin.execute("ALTER ROLE #{role} RESET ALL")
  end

  it "keeps no connection to it on PostgreSQL: the next one may find another server",
     needs: Support::Postgres::PROGRAMS do
    store = database_store(model_of(Support::Postgres.shared.config(username: role)))
    only_read do
      expect { store.acquire(key, wait: 0) { raise "entered" } }
        .to raise_error(Plock::UnavailableError, /read-only/)
      eventually(5) { store.pool_status.to_h.values_at(:used, :idle) == [0, 0] }
    end
    expect(store.acquire(key, wait: 5) { :entered }).to be(:entered)
  end

  # On MariaDB, a setting of the server makes new sessions read-only.
  %i[mysql2 trilogy].each do |name|
    it "keeps no connection to it on MariaDB either, through #{name}",
       needs: Support::Mariadb::PROGRAMS do
      server = Support::Databases.model(name).lease_connection
      store = database_store(model_of(Support::Databases.config(name)))
      begin
        server.execute("SET GLOBAL tx_read_only = 1")
        expect { store.acquire(key, wait: 0) { raise "entered" } }
          .to raise_error(Plock::UnavailableError, /READ ONLY/)
        eventually(5) { store.pool_status.to_h.values_at(:used, :idle) == [0, 0] }
      ensure
        server.execute("SET GLOBAL tx_read_only = 0")
      end
      expect(store.acquire(key, wait: 5) { :entered }).to be(:entered)
    end
  end
end
