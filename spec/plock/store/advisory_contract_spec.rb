# frozen_string_literal: true

require "spec_helper"
require "plock/store/advisory"
require "support/databases"
require "support/store_contract"

# Each scope has its share of the steps, as have MySQL's drivers (advisory_contract_on_mysql_spec.rb): all of them run the same Ruby but
# for the connection.
{ connection: [[], [1, 4]], transaction: [%i[downgrade], [2, 4]] }.each do |scope, (besides, share_of_steps)|
  RSpec.describe "A store of advisory locks, postgresql, #{scope}", needs: Support::Databases::PROGRAMS[:postgresql] do
    let(:store) { discard(Plock::Store::Advisory.new(Support::Databases.model(:postgresql), scope: scope, pool_size: 70, **Support::Databases::PATIENT), :close) }
    let(:share_of_steps) { share_of_steps }

    it_behaves_like "a store", Plock::Store::Advisory::UNABLE + besides
  end
end
