# frozen_string_literal: true

require "spec_helper"
require "plock/store/database"
require "support/store_in_database"

# Takes a share of the steps of interrupted_everywhere; see database_contract_spec.rb.
Support::StoreInDatabase.describe(
  "A store in a database", Plock::Store::Database::UNABLE, sqlite: [2, 4]
) { |model, **options| Plock::Store::Database.new(model, **Support::Databases::PATIENT, **options) }
