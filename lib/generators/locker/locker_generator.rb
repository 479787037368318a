# frozen_string_literal: true

require "rails/generators"
require "rails/generators/active_record"

# `rails generate locker [NAME]` writes a model, Lock by default, and the migration that creates
# its table.
class LockerGenerator < Rails::Generators::NamedBase
  include ActiveRecord::Generators::Migration

  desc "Makes a model for Locker, and the migration for its table"
  argument :name, type: :string, default: "Lock"
  source_root File.expand_path("templates", __dir__)

  # Writes the migration and the model.
  def create_files
    migration_template("migration.rb.tt", File.join(db_migrate_path, "create_#{table_name}.rb"))
    template("model.rb.tt", File.join("app/models", class_path, "#{file_name}.rb"))
  end
end
