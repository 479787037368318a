# frozen_string_literal: true

module Support
  # Helpers for the specs of failures: requests for a lock that cannot be acquired, and checks of
  # the outcome.
  module Failures
    TTL_MS = 30_000 # longer than any example, so that no lock expires during one
    ATTEMPT_TIMEOUT = 0.2
    RELEASE_TIMEOUT = 0.5

    # The error that a hold raises. Fails if its block is entered.
    def hold_failure(store, key = unique_key, wait: 0, report: nil)
      entered = false
      store.hold(key, TTL_MS, wait, report) { entered = true }
      raise "nothing failed"
    rescue Plock::Error => e
      raise "the block was entered without the lock" if entered

      e
    end

    # The error of one attempt without a hold.
    def attempt_failure(store, key = unique_key)
      store.lock_acquire(key, Plock.token, 3)
      raise "nothing failed"
    rescue Plock::Error => e
      e
    end

    # Expects that the store works: a lock is acquired, exists on the server, and is released.
    def expect_service(store, server = shared_redis)
      key = unique_key
      owner = store.hold(key, TTL_MS, 1.0, nil) { |lease| server.call("GET", key) == lease.token }
      expect([owner, server.call("GET", key)]).to eq([true, nil])
    end

    # Opens a connection and loads the scripts. After that, a call is one request and one reply.
    def warm(store)
      store.hold(unique_key, TTL_MS, 1.0, nil) { nil }
      store
    end

    def held?(key, server = shared_redis) = server.call("EXISTS", key) == 1

    # Runs the block while this process cannot open any more descriptors, so the block cannot load
    # files. This process must be a child of the suite.
    def without_descriptors
      files = []
      Process.setrlimit(:NOFILE, Inventory.descriptors.size + 16, Process.getrlimit(:NOFILE).last)
      begin
        loop { files << File.open(File::NULL) }
      rescue Errno::EMFILE
        yield
      end
    ensure
      files.each(&:close)
    end

    # How many commands with this name the server has executed.
    def calls(command, server = shared_redis)
      server.call("INFO", "commandstats")[/^cmdstat_#{command}:calls=(\d+)/, 1].to_i
    end

    # Expects that the lock disappears from the server long before it would expire.
    def expect_no_orphan(
      key, server = shared_redis, within: RELEASE_TIMEOUT + Patience::MARGIN + 1.0
    )
      eventually(within, "an orphan lock stays on the server") { !held?(key, server) }
    end
  end
end

# Examples for a store that cannot serve. The group that includes them defines the store by
# let(:store).
RSpec.shared_examples "a store that fails with" do |error_class, code|
  it "raises #{error_class}, code #{code.inspect}, and gives back what it opened", :no_leaks do
    error = attempt_failure(store)
    expect(error).to be_a(Object.const_get(error_class))
    expect(error.code).to eq(code)
    expect(error.message).not_to be_empty
  end

  it "does not enter the block of a hold, which ends with that error", :no_leaks do
    [0, 0.1].each do |wait|
      expect(hold_failure(store, wait: wait)).to be_a(
        Object.const_get(error_class)
      ).and have_attributes(code: code)
    end
  end

  it "does not enter the block of a hold that reports: it reports each failed attempt, " \
     "and then raises TimeoutError",
     :no_leaks do
    told = []
    error =
      hold_failure(
        store, report: ->(phase, failure) { told << [phase, failure.class.name, failure.code] }
      )
    expect(told.uniq).to eq([[:acquire, error_class, code]])
    expect(error).to be_a(Plock::TimeoutError).and have_attributes(code: :timed_out)
    expect(error.last_error).to be_a(Object.const_get(error_class)).and have_attributes(code: code)
    expect(error.message).to include(error.last_error.message)
  end

  it "ends each call by its budget", :timing do
    within_budget(Support::Failures::ATTEMPT_TIMEOUT) { attempt_failure(store) }
    within_budget(Support::Failures::ATTEMPT_TIMEOUT) { hold_failure(store) }
    within_budget(0.4) { hold_failure(store, wait: 0.4) }
  end
end
