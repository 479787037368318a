# frozen_string_literal: true

require "support/databases"

module Support
  # Databases for the examples of with_transactional_lock. They have counters, and the table of
  # locks that the generator makes.
  module TransactionalLocks
    DATABASES = (Databases::NAMES - %i[sqlite]).freeze

    class << self
      # @param name [Symbol] one of DATABASES
      # @return [Class]
      def model(name)
        @models ||= {}
        @models[name] ||= Databases
          .connect("Transactional#{name.to_s.capitalize}", Databases.config(name))
          .tap do |model|
            model.table_name = "counters"
            model.abstract_class = false
            prepare(model)
          end
      end

      # Increments a counter this many times. Repeats an attempt if the database has refused it to
      # prevent a lost update.
      def count(model, lock, isolation, times)
        until times.zero?
          begin
            model.transaction(isolation: isolation) do
              model.with_transactional_lock(lock) do
                value =
                  model.lease_connection.select_value("SELECT value FROM counters WHERE id = 1")
                model.lease_connection.execute(
                  "UPDATE counters SET value = #{value + 1} WHERE id = 1"
                )
              end
            end
            times -= 1
          rescue ActiveRecord::SerializationFailure
            unless isolation == :repeatable_read &&
                   model.lease_connection.adapter_name == "PostgreSQL"
              raise
            end
          end
        end
      end

      # Runs the generator.
      #
      # @return [Array<String>] the paths of the files that it writes
      def generate(model, generator, *arguments)
        folder = Dir.mktmpdir("generated", Supervisor.folder)
        system(
          RbConfig.ruby, "-I", File.expand_path("../../lib", __dir__), "-e", GENERATE, folder,
          model.connection_db_config.adapter, generator, *arguments, exception: true
        )
        Dir[File.join(folder, "**/*.rb")].sort
      end

      private

      def prepare(model)
        connection = model.lease_connection
        return if connection.table_exists?("counters")

        connection.execute("CREATE TABLE counters (id int PRIMARY KEY, value int NOT NULL)")
        connection.execute("INSERT INTO counters VALUES (1, 0), (2, 0)")
        migrate(model, connection) unless connection.adapter_name == "PostgreSQL"
      end

      def migrate(model, connection)
        load(generate(model, "with_transactional_lock:install").first)
        ActiveRecord::Migration.suppress_messages do
          ::CreateTransactionalAdvisoryLocks.new.exec_migration(connection, :up)
        end
      end
    end

    GENERATE = <<~RUBY
      require "rails"
      require "active_record"
      require "rails/generators"
      config = { adapter: ARGV[1], database: "none" }
      ActiveRecord::Base.configurations = { "development" => config }
      ActiveRecord::Base.establish_connection(config)
      Rails::Generators.invoke(ARGV[2], [*ARGV.drop(3), "--quiet"], destination_root: ARGV[0])
    RUBY
    private_constant :GENERATE

    # Runs the block in another process, and returns its value.
    def in_another(_model, &block) = in_child(&block)

    # Starts another process, which holds the lock until it receives a message. Returns that process
    # once it holds the lock.
    def hold_in_another(model, lock)
      holder =
        child { |parent| model.with_transactional_lock(lock) { parent.tell(:held) && parent.hear } }
      holder.hear
      holder
    end

    # Waits until the database reports that a caller is waiting for a lock. The pause is for InnoDB,
    # which updates its report only if no query has read it for a moment.
    def await_lock_wait(model)
      sql = "SELECT count(*) FROM information_schema.INNODB_TRX WHERE trx_state = 'LOCK WAIT'"
      if model.lease_connection.adapter_name == "PostgreSQL"
        sql = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
      end
      eventually(10) { sleep(0.15) && model.lease_connection.select_value(sql).positive? }
    end

    # @return [Boolean]
    def free?(model, lock)
      model.with_transactional_lock(lock, timeout: 0) { true }
    rescue Plock::TimeoutError
      false
    end

    # Acquires all of these locks, each within the one before, and runs the block.
    def nest(model, locks, &block)
      return block.call if locks.empty?

      model.with_transactional_lock(locks.shift) { nest(model, locks, &block) }
    end

    # The statements that are sent to the database while the block runs.
    def statements(_model, &block)
      sent = []
      hearing = ->(*, payload) do
        sent << payload[:sql] unless payload[:name] == "SCHEMA" || payload[:cached]
      end
      ActiveSupport::Notifications.subscribed(hearing, "sql.active_record", &block)
      sent
    end
  end
end
