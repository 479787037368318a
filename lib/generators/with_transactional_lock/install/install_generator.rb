# frozen_string_literal: true

require "rails/generators"
require "rails/generators/active_record"

module WithTransactionalLock
  # Generators for Rails.
  module Generators
    # On MySQL and MariaDB, `rails generate with_transactional_lock:install` writes the migration
    # that creates the table. PostgreSQL needs no table.
    class InstallGenerator < ::Rails::Generators::Base
      include ::ActiveRecord::Generators::Migration

      namespace "with_transactional_lock:install"
      desc "Makes a migration for the table of transactional locks, if the database needs one"
      source_root File.expand_path("templates", __dir__)

      # Writes the migration, if the database needs the table.
      def create_migration_file
        unless adapter.match?(/mysql|trilogy/i)
          return say("#{adapter} needs no table for transactional locks")
        end

        migration_template("create_transactional_advisory_locks.rb.tt",
                           File.join(db_migrate_path, "create_transactional_advisory_locks.rb"))
      end

      private

      def adapter = ::ActiveRecord::Base.connection_db_config.adapter
    end
  end
end
