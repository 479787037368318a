# frozen_string_literal: true

require "spec_helper"
require "plock/store/advisory"
require "support/store_in_database"

# Interrupts calls at every fourth step, from the fourth step on. Other specs interrupt them at the
# other steps (support/store_in_database.rb).
Support::StoreInDatabase.describe(
  "A store of advisory locks", Plock::Store::Advisory::UNABLE + %i[read_write_locks downgrade],
  trilogy: [4, 4]
) do |model, **options|
  Plock::Store::Advisory.new(model, pool_size: 70, **Support::Databases::PATIENT, **options)
end
