# frozen_string_literal: true

require "support/store_contract/helpers"
require "support/store_contract/acquiring"
require "support/store_contract/events"
require "support/store_contract/fibers"
require "support/store_contract/handing_over"
require "support/store_contract/interruptions"
require "support/store_contract/kinds"
require "support/store_contract/leases"
require "support/store_contract/loss"
require "support/store_contract/monitors"
require "support/store_contract/nesting"
require "support/store_contract/once"
require "support/store_contract/order"
require "support/store_contract/raising"
require "support/store_contract/readers_and_writers"
require "support/store_contract/renewing"
require "support/store_contract/secrets"
require "support/store_contract/semaphores"
require "support/store_contract/several_keys"
require "support/store_contract/telling"
require "support/store_contract/unable"

# The contract that every store must fulfil, tested through its public methods:
#
#   RSpec.describe "A store on Redis" do
#     let(:store) { open_store }
#     it_behaves_like "a store"
#   end
#
# `unable` lists the abilities that the store says it lacks. The examples of these abilities are
# left out. If a call can ask for such an ability, an example expects an UnsupportedError.
#
# The examples wait in real time, so they also suit stores whose clock they cannot change.
RSpec.shared_examples "a store" do |unable = []|
  include Support::StoreContract

  let(:key) { "contract:#{SecureRandom.hex(8)}" }

  # Makes the store and the key before the fibers start. Otherwise the fibers would wait for each
  # other in `let`, and a fiber that is stopped there would fail.
  before(:each, :fibers) { [store, key] }

  # After a timeout, a waiter asks one last time and leaves its place. If the store answers in time,
  # the waiter then asks who the holder is. On a busy machine, these answers need more time than
  # plock gives them, so the examples give them more.
  before do
    stub_const("Plock::Locking::Acquisition::EXAMINE_BUDGET", 5.0)
    if defined?(Plock::Store::AcquireRequest)
      stub_const("Plock::Store::AcquireRequest::GRACE_S", 5.0)
      stub_const("Plock::Store::AcquireRequest::AT_ONCE_S", 5.0)
    end
    stub_const("Plock::Store::Advisory::GRACE_S", 5.0) if defined?(Plock::Store::Advisory)
  end

  include_examples "a store that is acquired"
  include_examples "a store that serves in order" unless unable.include?(:order)
  include_examples "a store of leases", unable
  include_examples "a store that hands leases over" unless unable.include?(:hand_over)
  include_examples "a store whose leases can be lost"
  context("with a ttl from its configuration") do
    include_examples "a store that renews by itself", unable
  end
  include_examples "a store that raises in the block"
  include_examples "a store that tells who has what", unable
  include_examples "a store that tells of events"
  include_examples "a store whose callers are interrupted"
  include_examples "a store for fibers"
  include_examples "a store of shared locks", unable
  include_examples "a store of semaphores" unless unable.include?(:semaphores)
  unless unable.include?(:read_write_locks)
    include_examples "a store of readers and writers", unable
  end
  include_examples "a store of what is done once" unless unable.include?(:list)
  include_examples "a store for monitors"
  include_examples "a store that is asked again from within", unable
  include_examples "a store of which several keys are acquired", unable
  include_examples "a store that compares secrets" unless unable.include?(:compares_secrets)
  include_examples "a store that cannot do everything", unable
end
