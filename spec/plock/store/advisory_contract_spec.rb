# frozen_string_literal: true

require "spec_helper"
require "plock/store/advisory"
require "support/databases"
require "support/store_contract"

{ postgresql: [[:connection, []], [:transaction, %i[downgrade]]], mysql2: [[:connection, %i[read_write_locks downgrade]]],
  trilogy: [[:connection, %i[read_write_locks downgrade]]] }.each do |name, scopes|
  scopes.each do |scope, besides|
    RSpec.describe "A store of advisory locks, #{name}, #{scope}", needs: Support::Databases::PROGRAMS[name] do
      let(:store) { discard(Plock::Store::Advisory.new(Support::Databases.model(name), scope: scope, pool_size: 70), :close) }

      it_behaves_like "a store", Plock::Store::Advisory::UNABLE + besides
    end
  end
end
