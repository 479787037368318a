# frozen_string_literal: true

require_relative "mysql"

module WithTransactionalLock
  # Maintenance of the table in MySQL and MariaDB.
  class MySqlHelper
    BATCH = 1000
    private_constant :BATCH

    # Deletes the rows of all locks that are free. Each transaction deletes one batch, so a caller
    # that wants one of these locks waits for one batch at most.
    #
    # @param model [Class] an Active Record class that uses the database
    # @return [Integer] number of deleted rows
    # @raise [ActiveRecord::ActiveRecordError]
    #
    # @example Every night
    #   WithTransactionalLock::MySqlHelper.cleanup
    def self.cleanup(model = ActiveRecord::Base)
      model.with_connection do |connection|
        deleted = 0
        last = nil
        until (ids = batch(connection, last)).empty?
          deleted += delete(connection, ids)
          last = ids.last
        end
        deleted
      ensure
        Mysql.forget(connection)
      end
    end

    def self.batch(connection, last)
      after = "WHERE lock_id > #{last}" if last
      connection
        .exec_query("SELECT lock_id FROM #{Mysql::TABLE} #{after} ORDER BY lock_id LIMIT #{BATCH}")
        .rows
        .flatten
    end

    # At READ COMMITTED, the database locks no gaps between rows. Rows are deleted one by one,
    # because a DELETE of several rows may scan the table and wait for rows that callers hold.
    def self.delete(connection, ids)
      connection.transaction(isolation: :read_committed) do
        free = connection.exec_query("SELECT lock_id FROM #{Mysql::TABLE} WHERE lock_id IN " \
                                     "(#{ids.join(", ")}) FOR UPDATE SKIP LOCKED")
        free.rows.flatten.sum do |id|
          connection.delete("DELETE FROM #{Mysql::TABLE} WHERE lock_id = #{id}")
        end
      end
    end
    private_class_method :batch, :delete
  end
end
