# frozen_string_literal: true

require "openssl"

class Locker
  # The statements on a model's table. They go over whatever connection the model has in the thread
  # that calls.
  #
  # @api private
  class Rows
    # How each database tells the time, in UTC, and a time that is so many seconds later.
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

    private_constant :CLOCKS, :KINDS, :NAME

    # On which the processes of one table call each other, on PostgreSQL.
    def self.channel(model) =
      "plock_locker_#{OpenSSL::Digest::SHA256.hexdigest(model.table_name)[0, 16]}"

    # @return [String] what is called there for a key
    def self.call(key) = OpenSSL::Digest::SHA256.hexdigest(key.to_s)

    attr_reader :model

    def initialize(model)
      @model = model
    end

    # @return [Boolean] is a transaction of the caller's open?
    def in_transaction? = @model.with_connection(&:transaction_open?)

    # Makes the key's row, which nobody has then, where there is none.
    def make(key)
      with do |connection, kind|
        key = connection.quote(key.to_s)
        send(:"insert_on_#{kind}", connection, name, key, key)
      end
    end

    # @return [Integer, nil] the sequence; nil: somebody has it
    def take(key, owner, seconds)
      with do |connection, kind|
        now, later = clock(kind, seconds)
        key, owner = connection.quote(key.to_s), connection.quote(owner)
        set =
          "locked_by = #{owner}, locked_at = #{now}, locked_until = #{later}, sequence = COALESCE(sequence, 0) + 1"
        update =
          "UPDATE #{table} SET #{set} WHERE #{name} = #{key} AND (locked_by IS NULL OR locked_by = #{owner} OR locked_until < #{now})"
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

    # @return [Boolean] was it ours?
    def renew(key, owner, seconds)
      with do |connection, kind|
        connection.update("UPDATE #{table} SET locked_until = #{clock(kind, seconds).last} WHERE #{whose(connection, key, owner)}", NAME)
                  .positive?
      end
    end

    # On PostgreSQL, whoever waits is called in the same statement.
    #
    # @return [Boolean] was it ours?
    def release(key, owner)
      with do |connection, kind|
        update = "UPDATE #{table} SET locked_by = NULL WHERE #{whose(connection, key, owner)}"
        next connection.update(update, NAME).positive? unless kind == :postgresql

        connection.exec_query("WITH released AS (#{update} RETURNING 1) SELECT pg_notify('#{Rows.channel(@model)}', '#{Rows.call(key)}')::text " \
                              "FROM released", NAME).any?
      end
    end

    def prune(before)
      with do |connection, kind|
        now, = clock(kind, 0.0)
        moment = connection.quote(before.getutc.strftime("%Y-%m-%d %H:%M:%S.%6N"))
        connection.delete("DELETE FROM #{table} WHERE locked_until < #{moment} AND (locked_by IS NULL OR locked_until < #{now})", NAME)
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

    # Of a connection that was left in the middle of a statement, Active Record's pool does not
    # know; another thread would get it.
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

    # No id is drawn for a row that is not made.
    def take_on_postgresql(connection, update, making)
      connection
        .exec_query(
          "WITH taken AS (#{update} RETURNING sequence), made AS (#{making} RETURNING sequence) " \
            "SELECT sequence FROM taken UNION ALL SELECT sequence FROM made",
          NAME
        )
        .rows
        .dig(0, 0)
    end

    def making(columns, values, key) =
      "INSERT #{row_if_absent(columns, values, key)} ON CONFLICT DO NOTHING"

    def row_if_absent(columns, values, key)
      "INTO #{table} (#{columns}) SELECT #{values} WHERE NOT EXISTS (#{look_for(key)})"
    end

    def look_for(key) = "SELECT 1 FROM #{table} WHERE #{name} = #{key}"

    # @return [Integer] of rows made: another process may be making it
    def insert_on_postgresql(connection, columns, values, key) =
      connection.update(making(columns, values, key), NAME)

    def insert_on_sqlite(connection, columns, values, key)
      connection.update("INSERT OR IGNORE #{row_if_absent(columns, values, key)}", NAME)
    end

    # Two statements: what selects what it inserts keeps the ids and the gap locked until its end,
    # so that several of them fail as a deadlock does (1213; on MariaDB 1467, see MDEV-33593).
    def insert_on_mysql(connection, columns, values, key)
      return 0 if connection.exec_query(look_for(key), NAME).any?

      connection.update("INSERT IGNORE INTO #{table} (#{columns}) VALUES (#{values})", NAME)
    end
  end
end
