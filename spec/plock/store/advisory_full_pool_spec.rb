# frozen_string_literal: true

require "spec_helper"
require "plock/store/advisory"
require "support/advisory_server"

RSpec.describe Plock::Store::Advisory, "whose connections are all in use" do
  let(:key) { "full:#{SecureRandom.hex(8)}" }

  { "PostgreSQL" => :postgresql, "MariaDB" => :mysql2 }.each do |name, database|
    describe "on #{name}", needs: Support::Databases::PROGRAMS[database] do
      let(:model) { Support::Databases.model(database) }
      let(:store) do
        discard(
          described_class.new(model, pool_size: 1, **Support::Databases::PATIENT,
                                     release_timeout: 5), :close
        )
      end

      it "tells who holds a key" do
        store.acquire(key, ttl: 60) { expect(store.status(key)).to be_held }
      end

      it "breaks a lease of its own, and one of another process" do
        other = discard(described_class.new(model), :close)
        own = store.acquire(key, ttl: 60)
        theirs = other.acquire("#{key}:other", ttl: 60)
        expect(store.break("#{key}:other")).to be(true)
        expect(store.break(key)).to be(true)
        expect([own, theirs]).to all(be_lost)
      end
    end
  end
end
