# frozen_string_literal: true

require "openssl"

class Locker
  # The statements on a model's table. They run on the connection that the model uses in the calling
  # thread.
  #
  # @api private
  class Rows
    # For each database, the SQL for the current time in UTC, and for that time plus `:seconds`.
    CLOCKS = {
      postgresql: [
        "(clock_timestamp() AT TIME ZONE 'UTC')",
        "(clock_timestamp() AT TIME ZONE 'UTC' + INTERVAL ':seconds seconds')"
      ],
      mysql: ["UTC_TIMESTAMP(6)", "(UTC_TIMESTAMP(6) + INTERVAL :seconds SECOND)"],
      sqlite: [
        "strftime('%Y-%m-%d %H:%M:%f', 'now')",
        "strftime('%Y-%m-%d %H:%M:%f', 'now', '+:seconds seconds')"
      ]
    }.freeze

    KINDS = {
      "PostgreSQL" => :postgresql, "PostGIS" => :postgresql, "Mysql2" => :mysql,
      "Trilogy" => :mysql, "SQLite" => :sqlite
    }.freeze

    NAME = "Locker"
    COLUMNS = %w[key locked_by locked_at locked_until sequence].freeze

    private_constant :CLOCKS, :NAME, :COLUMNS

    # @return [String] the PostgreSQL channel on which processes notify the waiters for one table
    def self.channel(model) =
      "plock_locker_#{OpenSSL::Digest::SHA256.hexdigest(model.table_name)[0, 16]}"

    # @return [String] the payload for a key on that channel
    def self.call(key) = OpenSSL::Digest::SHA256.hexdigest(key.to_s)

    attr_reader :model

    def initialize(model)
      @model = model
    end

    def in_transaction? = @model.with_connection(&:transaction_open?)

    # Creates a free row for the key if it has none.
    def make(key)
      with do |connection, kind|
        next create(connection, key.to_s) if filled?

        key = connection.quote(key.to_s)
        send(:"insert_on_#{kind}", connection, name, key, key)
      end
    end

    # @return [Integer, nil] the sequence; nil if another caller holds the row
    def take(key, owner, seconds)
      make(key) if filled?
      with do |connection, kind|
        now, later = clock(kind, seconds)
        key, owner = connection.quote(key.to_s), connection.quote(owner)
        set =
          "locked_by = #{owner}, locked_at = #{now}, locked_until = #{later}, " \
          "sequence = COALESCE(sequence, 0) + 1"
        free = "locked_by IS NULL OR locked_by = #{owner} OR locked_until < #{now}"
        update = "UPDATE #{table} SET #{set} WHERE #{name} = #{key} AND (#{free})"
        row = [
          "#{name}, locked_by, locked_at, locked_until, sequence",
          "#{key}, #{owner}, #{now}, #{later}, 1"
        ]
        next take_on_postgresql(connection, update, making(*row, key)) if kind == :postgresql

        made =
          connection.update(update, NAME).positive? ||
          send(:"insert_on_#{kind}", connection, *row, key).positive?
        next unless made

        mine = "#{name} = #{key} AND locked_by = #{owner}"
        connection.exec_query("SELECT sequence FROM #{table} WHERE #{mine}", NAME).rows.dig(0, 0)
      end
    end

    # @return [Boolean] whether the row was ours
    def renew(key, owner, seconds)
      with do |connection, kind|
        later = clock(kind, seconds).last
        mine = whose(connection, key, owner)
        connection.update("UPDATE #{table} SET locked_until = #{later} WHERE #{mine}", NAME)
                  .positive?
      end
    end

    # Releases the row. On PostgreSQL, the same statement notifies the first waiter of each process.
    #
    # @return [Boolean] whether the row was ours
    def release(key, owner)
      with do |connection, kind|
        update = "UPDATE #{table} SET locked_by = NULL WHERE #{whose(connection, key, owner)}"
        next connection.update(update, NAME).positive? unless kind == :postgresql

        call = "pg_notify('#{Rows.channel(@model)}', '#{Rows.call(key)}')"
        connection.exec_query("WITH released AS (#{update} RETURNING 1) " \
                              "SELECT #{call}::text FROM released", NAME).any?
      end
    end

    def prune(before)
      with do |connection, kind|
        now, = clock(kind, 0.0)
        if before.respond_to?(:getutc)
          before = before.getutc.strftime("%Y-%m-%d %H:%M:%S.%6N")
        end
        moment = connection.quote(before)
        free = "locked_by IS NULL OR locked_until < #{now}"
        connection.delete("DELETE FROM #{table} WHERE locked_until < #{moment} AND (#{free})", NAME)
      end
    end

    private

    def with
      @model.with_connection do |connection|
        kind = KINDS.fetch(connection.adapter_name) do |adapter|
          raise Plock::UnsupportedError, "Locker needs PostgreSQL, MySQL, MariaDB or SQLite " \
                                         "(the adapter is #{adapter})"
        end
        undisturbed(connection) { yield connection, kind }
      end
    end

    # Closes the connection if an interrupt came in the middle of a statement. Active Record's pool
    # would not notice the unfinished statement, and would lend the connection to another thread.
    def undisturbed(connection)
      value = yield
      ended = true
      value
    rescue ActiveRecord::ActiveRecordError
      ended = true
      raise
    ensure
      connection.throw_away! unless ended || connection.transaction_open?
    end

    def clock(kind, seconds)
      CLOCKS.fetch(kind).map { |sql| sql.sub(":seconds", format("%.6f", seconds)) }
    end

    def table = @model.quoted_table_name

    def name = @model.with_connection { |connection| connection.quote_column_name("key") }

    def whose(connection, key, owner)
      "#{name} = #{connection.quote(key.to_s)} AND locked_by = #{connection.quote(owner)}"
    end

    # @return [Boolean] whether a row has columns, such as created_at, that the model must fill
    def filled?
      @model.columns.any? do |column|
        !column.null && column.default.nil? && column.default_function.nil? &&
          !COLUMNS.include?(column.name) &&
          !(column.name == @model.primary_key && column.type == :integer)
      end
    end

    # Creates a row through the model, as the original gem does. Another caller may create the same
    # row at the same moment.
    def create(connection, key)
      look = look_for(connection.quote(key))
      return if connection.exec_query(look, NAME).any?

      # the savepoint keeps the caller's transaction usable after a failure
      @model.transaction(requires_new: true) { @model.create!(key: key) }
    rescue ActiveRecord::RecordNotUnique
      nil
    rescue ActiveRecord::RecordInvalid # a validation may have found the other caller's row
      raise if connection.exec_query(look, NAME).none?
    end

    # Takes the row, or creates it. If the row exists, the statement does not use up an id.
    def take_on_postgresql(connection, update, making)
      sql = "WITH taken AS (#{update} RETURNING sequence), " \
            "made AS (#{making} RETURNING sequence) " \
            "SELECT sequence FROM taken UNION ALL SELECT sequence FROM made"
      connection.exec_query(sql, NAME).rows.dig(0, 0)
    end

    def making(columns, values, key)
      "INSERT INTO #{table} (#{columns}) SELECT #{values} " \
        "WHERE NOT EXISTS (#{look_for(key)}) ON CONFLICT DO NOTHING"
    end

    def look_for(key) = "SELECT 1 FROM #{table} WHERE #{name} = #{key}"

    # @return [Integer] number of rows created: 0 if another process has created the row
    def insert_on_postgresql(connection, columns, values, key) =
      connection.update(making(columns, values, key), NAME)

    alias insert_on_sqlite insert_on_postgresql

    # Uses two statements, because INSERT … SELECT holds the auto-increment lock and a gap lock
    # until it ends. Several such statements at once fail with a deadlock (error 1213), or on
    # MariaDB with error 1467 (MDEV-33593).
    def insert_on_mysql(connection, columns, values, key)
      return 0 if connection.exec_query(look_for(key), NAME).any?

      connection.update("INSERT INTO #{table} (#{columns}) VALUES (#{values})", NAME)
    rescue ActiveRecord::RecordNotUnique
      0
    end
  end
end
