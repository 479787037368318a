# frozen_string_literal: true

require "rails/generators"
require "rails/generators/active_record"

module Plock
  module Generators
    # `rails generate plock:database` writes the migration that creates the tables of
    # {Plock::Store::Database}.
    class DatabaseGenerator < ::Rails::Generators::Base
      include ::ActiveRecord::Generators::Migration

      namespace "plock:database"
      desc "Makes a migration for the tables of Plock::Store::Database"
      source_root File.expand_path("templates", __dir__)

      # Writes the migration.
      def create_migration_file
        migration_template(
          "create_plock_tables.rb.tt", File.join(db_migrate_path, "create_plock_tables.rb")
        )
      end
    end
  end
end
