# frozen_string_literal: true

require "spec_helper"
require "plock/store/database"
require "support/databases"
require "support/store_contract"

# All of them run the same Ruby but for the connection.
SHARES_OF_STEPS = { postgresql: [1, 3], mysql2: [2, 3], trilogy: [3, 3], sqlite: [1, 1] }.freeze

Support::Databases::NAMES.each do |name|
  RSpec.describe "A store in a database, #{name}", needs: Support::Databases::PROGRAMS[name] do
    let(:store) { discard(Plock::Store::Database.new(Support::Databases.model(name)), :close) }
    let(:share_of_steps) { SHARES_OF_STEPS.fetch(name) }

    it_behaves_like "a store", Plock::Store::Database::UNABLE
  end
end
