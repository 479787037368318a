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
  # The contract of a store for one that is made with a model of each of these databases. All of
  # them run the same Ruby but for the connection, so they share its steps.
  #
  #   Support::StoreInDatabase.describe(
  #     "A store in a database", Store::UNABLE, postgresql: [1, 4], sqlite: [2, 4]
  #   ) { |model, **options| Store.new(model, **options) }
  module StoreInDatabase
    # @param what [String]
    # @param unable [Array<Symbol>] what it says that it cannot do
    # @param shares [Hash{Symbol => Array(Integer, Integer)}] by names of databases: which part of
    #   how many
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
