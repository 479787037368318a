# frozen_string_literal: true

require "rspec/core"
require "rspec/expectations"
require_relative "acquisitions"
require_relative "helpers"

# For RSpec: a store in memory for each example, two matchers, and {Plock::Testing::Helpers}. An
# example with the metadata `plock: false` uses the configured store instead.
#
# @example spec/spec_helper.rb
#   require "plock/testing/rspec"
# @example
#   it "imports alone" do
#     expect { Import.run }.to have_acquired("import")
#     expect(Plock).not_to have_locked("import")
#   end

# Matches if the block acquires all these keys, or, without keys, any key.
RSpec::Matchers.define(:have_acquired) do |*keys|
  supports_block_expectations

  match(notify_expectation_failures: true) do |block|
    @seen = Plock::Testing::Acquisitions.during(&block)
    @seen.all?(keys)
  end

  match_when_negated(notify_expectation_failures: true) do |block|
    @seen = Plock::Testing::Acquisitions.during(&block)
    @seen.none?(keys)
  end

  failure_message { "expected the block to acquire #{@seen.named(keys)}, but #{@seen}" }
  failure_message_when_negated do
    "expected the block not to acquire #{@seen.named(keys)}, but #{@seen}"
  end
end

# Matches if the key is held in this store. The module {Plock} stands for the example's store.
RSpec::Matchers.define(:have_locked) do |key|
  match { |store| (@status = store.status(key)).held? }
  failure_message { "expected #{key.inspect} to be locked" }
  failure_message_when_negated { "expected #{key.inspect} not to be locked: #{@status}" }
end

RSpec.configure do |config|
  config.include(Plock::Testing::Helpers)
  config.around do |example|
    next example.run if example.metadata[:plock] == false

    Plock::Testing.install { example.run }
  end
end
