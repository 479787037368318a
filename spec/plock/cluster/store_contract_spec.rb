# frozen_string_literal: true

require "spec_helper"
require "support/cluster"
require "support/store_contract"

RSpec.describe "A store on a Redis Cluster", :slow, needs: Support::RedisServer::PROGRAM do
  before(:all) { @cluster = Support::Cluster.new }

  after(:all) { @cluster.stop }

  let(:store) { opener.call }
  let(:opener) do
    ->(**options) { used(open_store(@cluster.url, **Support::Examples::PATIENT, **options)) }
  end

  let(:name_in_store) { /\Aplock:v1:\{\h{8}\}\h{56}\z/ }

  it_behaves_like "a store"
end
