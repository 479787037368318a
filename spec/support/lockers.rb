# frozen_string_literal: true

require "plock/compat/locker"
require "support/databases"
require "support/transactional_locks"

module Support
  # Models for Locker, one for each database, with the table that Locker's generator makes.
  module Lockers
    class << self
      # @param name [Symbol] one of Databases::NAMES
      # @return [Class]
      def model(name)
        @models ||= {}
        @models[name] ||= connect("Locker#{name.to_s.capitalize}", Databases.config(name))
      end

      # @return [Class]
      def connect(name, config)
        Databases.connect(name, config).tap do |model|
          model.table_name = "locks"
          model.abstract_class = false
          migrate(model) unless model.lease_connection.table_exists?("locks")
        end
      end

      private

      def migrate(model)
        @files ||= TransactionalLocks.generate(model, "locker")
        load(@files.grep(/create_locks/).first)
        ActiveRecord::Migration.suppress_messages do
          ::CreateLocks.new.exec_migration(model.lease_connection, :up)
        end
      end
    end

    # The row of the key, read from the table each time.
    def row(key = self.key) = model.uncached { model.find_by(key: key) }

    # Connects ActiveRecord::Base to a model's database for one example. A stub would not do,
    # because all models would inherit it. That includes models that are still cleaning up after
    # stores of earlier examples.
    def connect_base(model)
      ActiveRecord::Base.establish_connection(model.connection_db_config)
      discard(ActiveRecord::Base, :remove_connection)
    end

    # Starts another process, which holds the lock until it receives a message. Its
    # result begins with :ran, or with :stolen if the lock was stolen.
    def hold_in_another(key = self.key, **options)
      holder = child do |parent|
        ran = Locker.run(key, model: model, **options) { parent.tell(:held) && parent.hear }
        [:ran, ran]
      rescue Locker::LockStolen
        [:stolen, Process.clock_gettime(Process::CLOCK_MONOTONIC)]
      end
      holder.hear
      holder
    end

    # Writes rows as the original Locker gem does, on PostgreSQL.
    module Original
      NOW = "clock_timestamp() at time zone 'UTC'"

      module_function

      def ensure_row(model, key)
        model.create!(key: key) unless model.exists?(key: key)
      end

      def get(model, key, owner, seconds)
        ensure_row(model, key)
        model
          .where(
            "key = ? AND (locked_by IS NULL OR locked_by = ? OR locked_until < #{NOW})", key, owner
          )
          .update_all(
            [
              "locked_by = ?, locked_at = #{NOW}, " \
                "locked_until = #{NOW} + interval '#{seconds} seconds', " \
                "sequence = sequence + 1",
              owner
            ]
          )
          .positive?
      end

      def release(model, key, owner)
        model
          .where("key = ? and locked_by = ?", key, owner)
          .update_all("locked_by = NULL")
          .positive?
      end
    end
  end
end
