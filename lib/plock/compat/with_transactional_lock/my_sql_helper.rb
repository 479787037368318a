# frozen_string_literal: true

require_relative "mysql"

module WithTransactionalLock
  # What is to be done with the table in MySQL now and then.
  class MySqlHelper
    BATCH = 1000
    private_constant :BATCH

    # Deletes the rows of locks that nobody has at the moment, a batch in each transaction, until
    # each has had its turn. Nobody waits for it longer than for one batch.
    #
    # @param model [Class] an Active Record class; its database is meant
    # @return [Integer] how many rows were deleted
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
      end
    end

    def self.batch(connection, last)
      after = "WHERE lock_id > #{last}" if last
      connection
        .exec_query("SELECT lock_id FROM #{Mysql::TABLE} #{after} ORDER BY lock_id LIMIT #{BATCH}")
        .rows
        .flatten
    end

    # At this level no gaps are locked. One by one: for several at once, MySQL may look at every
    # row, and wait for those that are held.
    def self.delete(connection, ids)
      connection.transaction(isolation: :read_committed) do
        free =
          connection.exec_query(
            "SELECT lock_id FROM #{Mysql::TABLE} WHERE lock_id IN (#{ids.join(", ")}) FOR UPDATE SKIP LOCKED"
          )
        free.rows.flatten.sum do |id|
          connection.delete("DELETE FROM #{Mysql::TABLE} WHERE lock_id = #{id}")
        end
      end
    end
    private_class_method :batch, :delete
  end
end
