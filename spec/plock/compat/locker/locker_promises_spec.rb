# frozen_string_literal: true

require "spec_helper"
require "support/lockers"

activity = {
  Support::Postgres => "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' " \
                           "AND query LIKE '%%locked_by =%%%<key>s%%' AND pid <> pg_backend_pid()",
  Support::Mariadb => "SELECT count(*) FROM information_schema.PROCESSLIST " \
                      "WHERE command <> 'Sleep' AND id <> CONNECTION_ID() " \
                      "AND info LIKE '%%locked_by =%%%<key>s%%'"
}

# Promises of Locker about callers that are killed.
{
  postgresql: Support::Postgres, mysql2: Support::Mariadb, trilogy: Support::Mariadb
}.each do |name, kind|
  RSpec.describe Locker, "on #{name}", needs: kind::PROGRAMS do
    include Support::Lockers

    let!(:model) { Support::Lockers.model(name) }
    let(:busy_sql) { format(activity.fetch(kind), key: key) }
    let!(:key) { "promise:#{SecureRandom.hex(8)}" }

    # How many statements about the key the database is executing.
    def busy = model.uncached { model.lease_connection.select_value(busy_sql) }

    # Expects that the statement ends and that the row is released.
    def expect_free
      eventually(5.0, "a statement does not end") { busy.zero? }
      eventually(1.5, "a row is left behind") { row&.locked_by.nil? }
    end

    it "leaves no row taken by a caller that is killed while it waits for the row" do
      model.create!(key: key)
      writer = child do |parent|
        model.transaction do
          model.where(key: key).update_all(locked_at: Time.now)
          parent.tell(:in) && parent.hear
        end
      end
      writer.hear
      own =
        Support::Lockers.connect(
          "Own#{SecureRandom.hex(4)}", model.connection_db_config.configuration_hash
        )
      caller = background { Locker.run(key, model: own, lock_for: 30) { raise "entered" } }
      eventually { busy == 1 }
      caller.kill.join(10)
      writer.tell(:go)
      writer.result
      expect_free
    end

    it "leaves no row taken by a caller that is killed while its request is on its way" do
      line = proxy(["127.0.0.1", kind.shared.port])
      config = kind.shared.tcp_config(*([name.to_s] unless name == :postgresql), port: line.port)
      far = Support::Lockers.connect("Far#{SecureRandom.hex(4)}", config)
      Locker.run(key, model: far) { nil }
      line.forget
      line.hold(:request, after: "UPDATE", connections: 1)
      caller = background { Locker.run(key, model: far, lock_for: 30) { raise "entered" } }
      line.await(:request, "UPDATE")
      caller.kill.join(10)
      before = row.sequence
      line.clear
      await_arrival(before)
      expect_free
    end

    # Waits until the database has executed the request, although its caller has gone. The request
    # may also never arrive, so this waits for at most a second.
    def await_arrival(before)
      eventually(1.0) { row.sequence > before }
    rescue RSpec::Expectations::ExpectationNotMetError
      nil
    end
  end
end
