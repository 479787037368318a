# frozen_string_literal: true

require "spec_helper"
require "plock/store/advisory"
require "support/store_in_database"

# Each scope has its share of the steps, as have MySQL's drivers (advisory_contract_on_mysql_spec.rb).
{ connection: [[], [1, 4]], transaction: [%i[downgrade], [2, 4]] }.each do |scope, (besides, share_of_steps)|
  Support::StoreInDatabase.describe("A store of advisory locks of a #{scope}", Plock::Store::Advisory::UNABLE + besides, postgresql: share_of_steps) do |model|
    Plock::Store::Advisory.new(model, scope: scope, pool_size: 70, **Support::Databases::PATIENT)
  end
end
