# frozen_string_literal: true

require "spec_helper"
require "plock/store/advisory"
require "support/databases"
require "support/store_contract"

# See advisory_contract_spec.rb: together they take all steps.
{ mysql2: [3, 4], trilogy: [4, 4] }.each do |name, share_of_steps|
  RSpec.describe "A store of advisory locks, #{name}", needs: Support::Databases::PROGRAMS[name] do
    let(:store) { discard(Plock::Store::Advisory.new(Support::Databases.model(name), pool_size: 70, **Support::Databases::PATIENT), :close) }
    let(:share_of_steps) { share_of_steps }

    it_behaves_like "a store", Plock::Store::Advisory::UNABLE + %i[read_write_locks downgrade]
  end
end
