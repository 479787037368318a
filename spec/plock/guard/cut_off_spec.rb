# frozen_string_literal: true

require "spec_helper"
require "plock/active_job"
require "plock/jobs/guard/push"
require "plock/jobs/sidekiq/pushes"
require "support/store_contract"

# A signal handler that raises may cut a push off after the job's lease was acquired.
RSpec.describe "A job's lease" do
  include Support::StoreContract

  let(:store) { open_store(shared_redis.url) }
  let(:key) { "guard:#{SecureRandom.hex(8)}" }
  let(:ticket) { Plock::Guard::JobState.new }
  let(:work) do
    guard = Struct.new(:limit, :at_least).new(1, 0.0)
    Struct.new(:id, :store, :key, :guard, :ticket, :label) do
      def queued_span(_due) = 1_000.0
      def acquire(**options, &block) = store.acquire(key, **options, &block)
    end.new("1", store, key, guard, ticket, "Job 1")
  end

  def give_back(dump) = Plock::Guard::Held.give_back(store, dump)

  it "is in the job's state or released, at whatever step of its push a signal handler raises" do
    interrupted_everywhere(-> { Plock::Guard::Push.new(work).call }, by_signal: true) do
      if ticket.lease
        expect([@interrupted_in, give_back(ticket)]).to eq([@interrupted_in, true])
      end
      eventually(Support::StoreContract::LATE_NEWS, @interrupted_in.inspect) { free? }
    end
  end

  it "keeps its key for at_least:, and no longer, at whatever step a signal handler raises" do
    end_job = -> { ticket.lease && give_back(ticket) }
    interrupted_everywhere(end_job, by_signal: true) do
      expect([@interrupted_in, store.status(key).remaining.to_f]).to match([anything, be < 60])
      store.break(key)
      ticket.lease = store.acquire(key, ttl: 1_000).dump
      ticket.keep_until = Plock::Clock.wall + 50
    end
    store.break(key)
  end

  # The block does hardly anything, so nearly all steps are those of the `ensure`.
  it "is released if its push fails, at whatever step a signal handler then raises" do
    pushes = Plock::Sidekiq::Pushes
    dump = nil
    push = -> do
      next unless dump

      pushes.around(false) do
        pushes.current.note(work)
        ticket.lease = dump
      end
    end
    interrupted_everywhere(push, by_signal: true) do
      noted = ticket.lease
      give_back(ticket.tap { |state| state.lease = dump }) if dump && !noted && !free?
      eventually(Support::StoreContract::LATE_NEWS, @interrupted_in.inspect) { free? }
      ticket.lease = nil
      dump = store.acquire(key, ttl: 1_000).dump
    end
    store.break(key)
  end
end
