# frozen_string_literal: true

require "spec_helper"
require "active_support"
require "active_support/core_ext/numeric/time"
require "plock/compat/remote_lock"
require "tmpdir"
require_relative "behaviour"

RSpec.describe RemoteLock::Adapters::Store do
  let(:adapter) { described_class.new(store) }
  let(:another_adapter) { described_class.new(store) }

  context "in a local store" do
    let(:folder) { Dir.mktmpdir("plock-remote-lock") }
    let(:store) { discard(Plock::Store.open("local:#{folder}/locks"), :close) }

    after { FileUtils.rm_rf(folder) }

    it_behaves_like "a remote lock"
  end

  context "in Redis", needs: "redis-server" do
    let(:store) { open_store }

    it_behaves_like "a remote lock"
  end
end
