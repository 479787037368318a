# frozen_string_literal: true

require "active_record"
require_relative "../../errors"
require_relative "tables"

module Plock
  class Store
    class Database
      # Where a store's connections come from: the database of an Active Record class, and what is particular about it.
      #
      # @api private
      class Origin
        autoload_from = ->(name, file) { Database.autoload(name, File.expand_path(file, __dir__)) }
        autoload_from.call(:Postgresql, "postgresql")
        autoload_from.call(:Mysql2, "mysql2")
        autoload_from.call(:Trilogy, "trilogy")
        autoload_from.call(:Sqlite, "sqlite")
        autoload_from.call(:PostgresqlTables, "postgresql_tables")
        autoload_from.call(:MysqlTables, "mysql_tables")
        autoload_from.call(:SqliteTables, "sqlite_tables")

        KINDS = { "PostgreSQL" => %i[Postgresql PostgresqlTables], "PostGIS" => %i[Postgresql PostgresqlTables],
                  "Mysql2" => %i[Mysql2 MysqlTables], "Trilogy" => %i[Trilogy MysqlTables],
                  "SQLite" => %i[Sqlite SqliteTables] }.freeze

        # A database that only the connection sees that opened it.
        IN_MEMORY = /\A(:memory:|file::memory:.*|file:.*mode=memory.*|)\z/.freeze

        private_constant :KINDS, :IN_MEMORY

        # @return [Class] of {Connection}
        attr_reader :connection_class

        # @return [Tables]
        attr_reader :tables

        # @param model [Class] an Active Record class
        # @raise [UnsupportedError]
        def initialize(model)
          @model = model
          @database = config.adapter_class::ADAPTER_NAME
          kind, tables = KINDS.fetch(@database) { |name| refuse(name) }
          refuse_memory if kind == :Sqlite && IN_MEMORY.match?(config.database.to_s)
          @connection_class = Database.const_get(kind)
          @tables = Database.const_get(tables).new(model.table_name_prefix, model.table_name_suffix)
        end

        # @param connect_timeout [Float] seconds
        # @return [ActiveRecord::ConnectionAdapters::AbstractAdapter] connected, and in no pool
        # @raise [Error]
        def adapter(connect_timeout)
          config = self.config
          check_database(config.adapter_class::ADAPTER_NAME)
          hash = { connect_timeout: connect_timeout.ceil }.merge(config.configuration_hash)
          ActiveRecord::DatabaseConfigurations::HashConfig.new(config.env_name, config.name, hash).new_connection.connect!
        rescue ActiveRecord::DatabaseConnectionError => e
          raise AuthenticationError.new(first_line(e), code: :login)
        rescue ActiveRecord::NoDatabaseError => e
          raise ConfigurationError.new(first_line(e), code: :bad_config)
        rescue ActiveRecord::ActiveRecordError => e
          raise UnavailableError.new(first_line(e), code: :connect)
        end

        # @return [Boolean] is a transaction of the model's open in this thread?
        def in_transaction?
          connection = @model.connection_pool.active_connection
          !connection.nil? && connection != false && connection.transaction_open?
        end

        # @yieldparam inside [Inside] the caller's connection
        # @return [Object] the block's value
        def inside(&block)
          @model.with_connection { |connection| Inside.new(connection, @connection_class.failures).guarded(&block) }
        end

        # @return [String] without user and password
        def url
          hash = config.configuration_hash
          place = [hash[:host] || hash[:socket], hash[:port]].compact.join(":")
          "#{config.adapter}:#{"//#{place}/" unless place.empty?}#{config.database}"
        end

        # What it is that nobody shares who runs inside a transaction of its own.
        #
        # @return [ActiveRecord::DatabaseConfigurations::DatabaseConfig] asked for each time, so that a model that is connected anew is
        #   followed; of the role that writes, whatever role the caller is in
        def config
          pool = @model.connection_handler.retrieve_connection_pool(
            @model.connection_specification_name, role: ActiveRecord.writing_role, shard: @model.default_shard
          )
          pool&.db_config or raise ConfigurationError.new("#{@model.name} has no connection to a database", code: :bad_config)
        end

        private

        # A model may be connected anew, and to another place, but what is spoken there must stay the same.
        def check_database(name)
          return if name == @database

          raise ConfigurationError.new("#{@model.name} was connected to #{@database} when its store was made, and is to #{name} now",
                                       code: :bad_config)
        end

        def refuse(name)
          raise UnsupportedError.new("a store in a database needs PostgreSQL, MySQL, MariaDB or SQLite (this is #{name})",
                                     code: :unsupported)
        end

        def refuse_memory
          raise UnsupportedError.new("an SQLite database in memory belongs to one connection: nobody else would see a lease",
                                     code: :unsupported)
        end

        def first_line(error) = error.message.lines.first.to_s.strip
      end
    end
  end
end
