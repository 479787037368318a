# frozen_string_literal: true

require "spec_helper"
require "plock/store/database"
require "support/databases"
require "support/store_contract"

Support::Databases::NAMES.each do |name|
  RSpec.describe "A store in a database, #{name}", needs: Support::Databases::PROGRAMS[name] do
    let(:store) { discard(Plock::Store::Database.new(Support::Databases.model(name)), :close) }

    it_behaves_like "a store", Plock::Store::Database::UNABLE
  end
end
