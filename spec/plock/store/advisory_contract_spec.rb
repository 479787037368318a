# frozen_string_literal: true

require "spec_helper"
require "plock/store/advisory"
require "support/databases"
require "support/store_contract"

# Which database, which scope, what is not to be had there besides, and which of the steps: all of them run the same Ruby but for the
# connection.
[
  [:postgresql, :connection, [], [1, 4]],
  [:postgresql, :transaction, %i[downgrade], [2, 4]],
  [:mysql2, :connection, %i[read_write_locks downgrade], [3, 4]],
  [:trilogy, :connection, %i[read_write_locks downgrade], [4, 4]]
].each do |name, scope, besides, share_of_steps|
  RSpec.describe "A store of advisory locks, #{name}, #{scope}", needs: Support::Databases::PROGRAMS[name] do
    let(:store) { discard(Plock::Store::Advisory.new(Support::Databases.model(name), scope: scope, pool_size: 70), :close) }
    let(:share_of_steps) { share_of_steps }

    it_behaves_like "a store", Plock::Store::Advisory::UNABLE + besides
  end
end
