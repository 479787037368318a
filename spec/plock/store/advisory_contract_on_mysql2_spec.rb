# frozen_string_literal: true

require "spec_helper"
require "plock/store/advisory"
require "support/store_in_database"

# Takes a share of the steps of interrupted_everywhere; see advisory_contract_spec.rb.
Support::StoreInDatabase.describe(
  "A store of advisory locks", Plock::Store::Advisory::UNABLE + %i[read_write_locks downgrade],
  mysql2: [3, 4]
) do |model, **options|
  Plock::Store::Advisory.new(model, pool_size: 70, **Support::Databases::PATIENT, **options)
end
