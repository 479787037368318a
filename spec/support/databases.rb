# frozen_string_literal: true

require "active_record"
require "support/mariadb"
require "support/postgres"

module Support
  # The databases on which the stores are tested. Each has a connected model of its own, and the
  # tables that plock's generator makes.
  module Databases
    NAMES = %i[postgresql mysql2 trilogy sqlite].freeze

    # Options for stores whose examples do not test timeouts. With them, a slow answer on a busy
    # machine does not count as a missing answer.
    PATIENT = { attempt_timeout: 20, release_timeout: 20, connect_timeout: 20 }.freeze

    PROGRAMS = {
      postgresql: Postgres::PROGRAMS, mysql2: Mariadb::PROGRAMS, trilogy: Mariadb::PROGRAMS,
      sqlite: []
    }.freeze

    class Model < ActiveRecord::Base
      self.abstract_class = true
    end

    class << self
      # @param name [Symbol] one of NAMES
      # @return [Class]
      def model(name)
        @models ||= {}
        @models[name] ||= connect(const_name(name), config(name)).tap do |model|
          migrate(model) unless name == :trilogy && tables?(model)
        end
      end

      # Makes a model with this name that is connected to the given database.
      def connect(name, config)
        model = const_set(name, Class.new(Model))
        model.abstract_class = true
        model.establish_connection(config)
        model
      end

      def config(name)
        case name
        when :postgresql
          Postgres.shared.config
        when :mysql2, :trilogy
          Mariadb.shared.config(name.to_s)
        when :sqlite
          {
            adapter: "sqlite3", database: File.join(Supervisor.folder, "plock.sqlite3"),
            timeout: 5_000
          }
        end
      end

      # Runs the migration that plock's generator writes.
      def migrate(model)
        return if tables?(model)

        migration = migration_class
        model.connection_pool.with_connection do |connection|
          ActiveRecord::Migration.suppress_messages do
            migration.new.exec_migration(connection, :up)
          end
        end
      end

      private

      def tables?(model) =
        model.connection_pool.with_connection do |connection|
          connection.table_exists?("plock_leases")
        end

      def const_name(name) = "#{name.to_s.capitalize}Model"

      # The generator runs in a separate process, because Rails would change classes of this one.
      def migration_class
        @migration_class ||= begin
          folder = Dir.mktmpdir("generated", Supervisor.folder)
          system(
            RbConfig.ruby, "-I", File.expand_path("../../lib", __dir__), "-e", GENERATE, folder,
            exception: true
          )
          load(Dir[File.join(folder, "db/migrate/*_create_plock_tables.rb")].first)
          ::CreatePlockTables
        end
      end
    end

    GENERATE = <<~RUBY
      require "rails"
      require "rails/generators"
      Rails::Generators.invoke("plock:database", ["--quiet"], destination_root: ARGV[0])
    RUBY
    private_constant :GENERATE
  end
end
