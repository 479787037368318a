# frozen_string_literal: true

require "support/databases"
require "support/store_contract"

RSpec.shared_examples "a store that processes share" do
  include Support::StoreContract

  let(:key) { "shared:#{SecureRandom.hex(8)}" }

  it "ends in a forked child a lease of its parent, and the parent reports the loss" do
    lease = hold(ttl: renewed, renew: true)
    expect(in_child { store.break(key) }).to be(true)
    expect_free
    eventually(10) { lease.lost? }
  end

  it "ends such a lease by what a status says, too" do
    lease = hold(ttl: renewed, renew: true)
    expect(in_child { store.break(store.status(key)) }).to be(true)
    expect_free
    eventually(10) { lease.lost? }
  end
end

module Support
  # Runs the store contract for one kind of store on several databases, each with a model of its
  # own. The stores differ only in their connections and run the same Ruby code, so the steps of
  # interrupted_everywhere are divided among them.
  #
  #   Support::StoreInDatabase.describe(
  #     "A store in a database", Store::UNABLE, postgresql: [1, 4], sqlite: [2, 4]
  #   ) { |model, **options| Store.new(model, **options) }
  module StoreInDatabase
    # @param what [String]
    # @param unable [Array<Symbol>] the abilities that the store says it lacks
    # @param shares [Hash{Symbol => Array(Integer, Integer)}] each database's share of the steps:
    #   the first step, and the distance to the next one
    # @yieldparam model [Class]
    # @yieldreturn [Plock::Locking]
    def self.describe(what, unable, **shares, &make)
      shares.each do |name, share_of_steps|
        RSpec.describe "#{what}, #{name}", needs: Databases::PROGRAMS[name] do
          let(:store) { opener.call }
          let(:opener) do
            ->(**options) { discard(make.call(Databases.model(name), **options), :close) }
          end
          let(:share_of_steps) { share_of_steps }

          it_behaves_like "a store", unable
          it_behaves_like "a store that processes share"
        end
      end
    end
  end
end
