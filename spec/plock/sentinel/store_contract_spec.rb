# frozen_string_literal: true

require "spec_helper"
require "support/sentinels"
require "support/store_contract"

RSpec.describe "A store that sentinels name", :slow, needs: Support::RedisServer::PROGRAM do
  before(:all) { @group = Support::Sentinels.new(failover: false) }

  after(:all) { @group.stop }

  let(:store) { opener.call }
  let(:opener) do
    ->(**options) { used(open_store(@group.url, **Support::Examples::PATIENT, **options)) }
  end

  it_behaves_like "a store"
end
