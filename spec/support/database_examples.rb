# frozen_string_literal: true

require "plock/store/database"
require "support/databases"

module Support
  # Helpers for the examples of stores in a database.
  module DatabaseExamples
    # The databases, by the names that appear in the descriptions of examples.
    SERVERS = { "PostgreSQL" => :postgresql, "MariaDB" => :mysql2 }.freeze
    ALL = { **SERVERS, "SQLite" => :sqlite }.freeze

    # An error that an example raises in a thread to interrupt it.
    class Interrupt < StandardError; end

    def database_store(model, **options)
      discard(Plock::Store::Database.new(model, **options), :close)
    end

    # Returns a new model that connects with this configuration.
    def model_of(config) = Support::Databases.connect("Model#{SecureRandom.hex(4)}", config)

    # Seconds of processor time that this process has used.
    def processor_time = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID)

    # Runs the block while a transaction of the example holds a lock on the row of this key. On
    # SQLite the transaction locks the whole database.
    def with_row_locked(model, store_key)
      model.transaction do
        if model.connection_db_config.adapter == "sqlite3"
          model.lease_connection.execute("DELETE FROM plock_claims WHERE 0 = 1")
        else
          sql = "SELECT name FROM plock_leases WHERE name = '#{store_key}' FOR UPDATE"
          model.lease_connection.execute(sql)
        end
        yield
        raise ActiveRecord::Rollback
      end
    end

    # Forks a process that runs the block, and that stops itself right after it has executed the
    # statement with this number. Only plock's statements count. Returns when the process has
    # stopped.
    #
    # @return [Support::Child, nil] nil if the deadline passed before the child stopped
    def stopped_child(statement, within: 5.0, &block)
      child = child { |parent| stop_after(statement) { block.call(parent) } }
      deadline = monotonic + within
      loop do
        pid, status = Process.wait2(child.pid, Process::WUNTRACED | Process::WNOHANG)
        return child if pid && status.stopped?
        raise Support::Child::Failed, "the child ended" if pid
        return child.finish if monotonic > deadline

        sleep 0.002
      end
    end

    # Runs the block in the child.
    def stop_after(statement)
      count = 0
      stop = ->(*, payload) do
        Process.kill(:STOP, Process.pid) if payload[:name] == "Plock" && (count += 1) == statement
      end
      ActiveSupport::Notifications.subscribed(stop, "sql.active_record") { yield }
    end

    # Kills a child, even one that is stopped.
    def end_child(child)
      child.signal(:KILL)
      child.wait
    end

    # @return [Float, Plock::Error] the seconds that the call took, or its error
    def seconds_or_error(&block)
      elapsed(&block).round(3)
    rescue Plock::Error => e
      e
    end
  end
end
