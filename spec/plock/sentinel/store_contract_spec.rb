# frozen_string_literal: true

require "spec_helper"
require "support/sentinels"
require "support/store_contract"

RSpec.describe "A store that sentinels name", :slow, needs: Support::RedisServer::PROGRAM do
  before(:all) { @group = Support::Sentinels.new }

  after(:all) { @group.stop }

  let(:store) { opener.call }
  let(:opener) { ->(**options) { used(open_store(@group.url, **options)) } }

  it_behaves_like "a store"
end
