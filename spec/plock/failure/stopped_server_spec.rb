# frozen_string_literal: true

require "spec_helper"
require "support/failures"

# SIGSTOP stops the server. The kernel still accepts connections and bytes, but no reply arrives.
RSpec.describe "A server that stands still" do
  include Support::Failures

  let(:server) { redis_server }
  let(:store) { open_store(server.url) }
  let(:key) { unique_key }

  def stopped
    server.stop_process
    yield
  ensure
    server.continue_process
  end

  it "during acquire: the call ends by its budget, with and without a connection", :timing do
    stopped { within_budget(0.2) { attempt_failure(store) } }
    warm(store)
    stopped do
      within_budget(0.2) { attempt_failure(store) }
      within_budget(0.4) { hold_failure(store, wait: 0.4) }
    end
  end

  it "during acquire: a typed error, the block not entered, nothing leaked", :no_leaks do
    warm(store)
    stopped { expect(hold_failure(store).code).to eq(:silent) }
  end

  it "during acquire: when it goes on, the abandoned acquire is undone, and it serves" do
    warm(store)
    before = calls("evalsha", server)
    stopped { attempt_failure(store, key) }
    # the acquire that its caller has given up, and its undo
    eventually { calls("evalsha", server) >= before + 2 }
    expect(held?(key, server)).to be(false)
    expect_service(store, server)
  end

  it "during acquire, within a hold's wait: the hold goes on as soon as the server does" do
    warm(store)
    codes = Queue.new
    server.stop_process
    holder =
      background { store.hold(key, 3_000, 20, ->(_, error) { codes << error.code }) { :entered } }
    expect(codes.pop).to eq(:silent)
    server.continue_process
    expect(holder.value).to eq(:entered)
    expect_no_orphan(key, server)
  end

  it "during an adoption: the call ends by command_timeout", :timing do
    dump = store.acquire(key).dump
    stopped do
      within_budget(0.5) do
        expect { store.adopt(dump) }.to raise_error(Plock::UnavailableError)
      end
    end
  end

  it "during a wait for another holder's lock: the call ends by its budget", :timing do
    warm(store)
    server.call("SET", key, "somebody")
    for_as_long_as(0.4) do
      before = calls("evalsha", server)
      holder = background { hold_failure(store, key, wait: 0.4) }
      eventually { calls("evalsha", server) > before }
      stopped do
        expect(holder.value).to be_a(Plock::UnavailableError).and have_attributes(code: :silent)
      end
    end
  end

  it "during the block: the release ends by release_timeout and is reported; the value stays" do
    reports = []
    value = stopped_by_the_block(reports) { :value }
    server.continue_process
    expect(value).to eq(:value)
    expect(reports.map { |phase, error| [phase, error.class] }).to eq(
      [[:release, Plock::UnavailableError]]
    )
    expect_service(store, server)
  end

  it "during the block: the lock is released when the server goes on" do
    stopped_by_the_block([]) { nil }
    server.continue_process
    expect_no_orphan(key, server)
  end

  it "during the block: release_timeout and no more", :timing do
    within_budget(Support::Failures::RELEASE_TIMEOUT) do
      stopped_by_the_block([]) { nil }
    ensure
      server.continue_process
      eventually { !held?(key, server) }
    end
  end

  it "during the block: the block's own exception is raised" do
    expect { stopped_by_the_block([]) { raise IndexError, "its own" } }.to raise_error(
      IndexError, "its own"
    )
    server.continue_process
  end

  it "during release: the call ends by release_timeout, and the server releases when it goes on" do
    gate = proxy(server)
    store = warm(open_store(gate.url))
    reports = []
    leaving = Queue.new
    holder = background do
      store.hold(key, Support::Failures::TTL_MS, 1.0, ->(*report) { reports << report }) do
        gate.forget
        gate.hold(:request)
        leaving << true
        :value
      end
    end
    leaving.pop
    gate.await(:request, "EVALSHA")
    server.stop_process
    gate.clear
    expect(holder.value).to eq(:value)
    expect(reports.map(&:first)).to eq([:release])
    server.continue_process
    expect_no_orphan(key, server)
  end

  # First makes a hold, which loads the release script. Otherwise, the server would only reply that
  # it does not know the script.
  def stopped_by_the_block(reports)
    warm(store).hold(key, Support::Failures::TTL_MS, 1.0, ->(*report) { reports << report }) do
      server.stop_process
      yield
    end
  end
end
