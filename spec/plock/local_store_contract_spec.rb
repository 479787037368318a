# frozen_string_literal: true

require "spec_helper"
require "support/store_contract"

RSpec.describe "A local store" do
  let(:folder) do
    Dir.mktmpdir("plock-local-").tap { |path| discard(-> { FileUtils.remove_entry(path) }, :call) }
  end
  let(:store) { opener.call }
  let(:opener) { ->(**options) { used(open_store("local:#{folder}/locks", **options)) } }

  it_behaves_like "a store", Plock::LocalStore::UNABLE
end
