# frozen_string_literal: true

require "spec_helper"
require "plock/store/database"
require "support/store_in_database"

# Interrupts calls at every fourth step, from the third step on. Other specs interrupt them at the
# other steps (support/store_in_database.rb).
Support::StoreInDatabase.describe(
  "A store in a database", Plock::Store::Database::UNABLE, mysql2: [3, 4]
) { |model, **options| Plock::Store::Database.new(model, **Support::Databases::PATIENT, **options) }
