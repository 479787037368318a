# frozen_string_literal: true

require "spec_helper"
require "plock/store/database"
require "support/store_in_database"

Support::StoreInDatabase.describe(
  "A store in a database", Plock::Store::Database::UNABLE, postgresql: [1, 4]
) { |model, **options| Plock::Store::Database.new(model, **Support::Databases::PATIENT, **options) }
