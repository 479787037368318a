# frozen_string_literal: true

module Support
  # Shared by the specs of failures: requests for a lock that cannot be acquired, and checks of the
  # outcome.
  module Failures
    TTL_MS = 30_000 # longer than any example: nothing here goes away by expiring
    ATTEMPT_TIMEOUT = 0.2
    RELEASE_TIMEOUT = 0.5

    # The error with which a hold ends. Its block must not be entered.
    def hold_failure(store, key = unique_key, wait: 0, report: nil)
      entered = false
      store.hold(key, TTL_MS, wait, report) { entered = true }
      raise "nothing failed"
    rescue Plock::Error => e
      raise "the block was entered without the lock" if entered

      e
    end

    # The error of one bare attempt.
    def attempt_failure(store, key = unique_key)
      store.lock_acquire(key, Plock.token, 3)
      raise "nothing failed"
    rescue Plock::Error => e
      e
    end

    # The store serves now: a lock is had, held on the server, and given back.
    def expect_service(store, server = shared_redis)
      key = unique_key
      owner = store.hold(key, TTL_MS, 1.0, nil) { |lease| server.call("GET", key) == lease.token }
      expect([owner, server.call("GET", key)]).to eq([true, nil])
    end

    # Opens what a first call opens, and has the scripts loaded, so that what follows is one request
    # and one reply.
    def warm(store)
      store.hold(unique_key, TTL_MS, 1.0, nil) { nil }
      store
    end

    def held?(key, server = shared_redis) = server.call("EXISTS", key) == 1

    # Leaves the process, a child of the suite's, no descriptor while the block runs. Nothing can be
    # loaded in there.
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

    # Requests of that name which the server has carried out.
    def calls(command, server = shared_redis)
      server.call("INFO", "commandstats")[/^cmdstat_#{command}:calls=(\d+)/, 1].to_i
    end

    # The lock is not on the server, though it was, and though its time is not over.
    def expect_no_orphan(
      key, server = shared_redis, within: RELEASE_TIMEOUT + Patience::MARGIN + 1.0
    )
      eventually(within, "an orphan lock stays on the server") { !held?(key, server) }
    end
  end
end

# A store that cannot serve: let(:store) names it.
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
