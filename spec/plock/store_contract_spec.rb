# frozen_string_literal: true

require "spec_helper"
require "support/store_contract"

RSpec.describe "A store on Redis" do
  let(:store) { opener.call }
  let(:opener) { ->(**options) { used(open_store(**Support::Examples::PATIENT, **options)) } }

  it_behaves_like "a store"
end
