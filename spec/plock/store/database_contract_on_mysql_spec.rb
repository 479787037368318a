# frozen_string_literal: true

require "spec_helper"
require "plock/store/database"
require "support/databases"
require "support/store_contract"

# See database_contract_spec.rb: together they take all steps.
{ mysql2: [3, 4], trilogy: [4, 4] }.each do |name, share_of_steps|
  RSpec.describe "A store in a database, #{name}", needs: Support::Databases::PROGRAMS[name] do
    let(:store) { discard(Plock::Store::Database.new(Support::Databases.model(name), **Support::Databases::PATIENT), :close) }
    let(:share_of_steps) { share_of_steps }

    it_behaves_like "a store", Plock::Store::Database::UNABLE
  end
end
