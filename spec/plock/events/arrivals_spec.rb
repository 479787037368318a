# frozen_string_literal: true

require "spec_helper"
require "async"
require "timeout"

# While a subscriber runs, another thread or a timeout raises an error in the caller.
RSpec.describe Plock::Events do
  let(:key) { "arrivals:#{SecureRandom.hex(8)}" }
  let(:running) { Queue.new }
  let(:go) { Queue.new }

  # Adds a subscriber that waits until it is told to continue.
  def slow(store: open_store("memory:"))
    subscription = Plock.subscribe(:acquire) do
      running << true
      go.pop
    end
    discard(-> { Plock.unsubscribe(subscription) }, :call)
    store
  end

  {
    "in memory" => -> { "memory:" }, "on Redis" => -> { shared_redis.unix_url }
  }.each do |place, url|
    describe "a timeout around a call #{place}" do
      let(:store) { used(open_store(instance_exec(&url))) }

      own = Class.new(StandardError)
      { "without a class" => [], "with a class" => [own], "with its own class" => [Timeout::Error] }
        .each do |kind, arguments|
          it "is raised, #{kind}, and the key is free" do
            slow(store: store)
            heard = warnings do
              expect { Timeout.timeout(0.05, *arguments) { store.acquire(key) { nil } } }
                .to raise_error(arguments.first || Timeout::Error, "execution expired")
            end
            expect(heard).to be_empty
            expect(store.status(key).held?).to be(false)
          end
        end
    end
  end

  it "raise the timeout of a task of Async" do
    store = slow
    raised = Async do |task|
      task.with_timeout(0.05) { store.acquire(key) { nil } }
    rescue Async::TimeoutError => e
      e
    end.wait
    expect(raised).to be_a(Async::TimeoutError)
    expect(store.status(key).held?).to be(false)
  end

  it "log a timeout within a subscriber, which has nothing to do with the caller" do
    store = open_store("memory:")
    gave_up = []
    [[], [IOError]].each do |arguments|
      subscription = Plock.subscribe(:acquire) { Timeout.timeout(0.01, *arguments) { sleep } }
      gave_up += warnings { expect(store.acquire(key) { :value }).to be(:value) }
    ensure
      Plock.unsubscribe(subscription)
    end
    expect(gave_up).to match([/acquire raised Timeout::Error/, /acquire raised IOError/])
  end

  it "raise Interrupt and other exceptions that no subscriber may rescue" do
    store = slow
    caller = background { store.acquire(key) { nil } }
    running.pop
    caller.raise(Interrupt)
    expect { caller.value }.to raise_error(Interrupt)
    expect(store.status(key).held?).to be(false)
  end

  it "of a loss come after on_lost:, so a subscriber that hangs does not delay it" do
    store = open_store("memory:")
    go_on = Queue.new
    told = Queue.new
    subscription = Plock.subscribe(:lost) { go_on.pop }
    discard(store.acquire(key, on_lost: ->(lease) { told << lease.key }), :release)
    store.break(key)
    eventually { told.size == 1 }
    go_on << true
    Plock::Dispatcher.flush
  ensure
    go_on << true
    Plock.unsubscribe(subscription)
  end

  it "let a loss of the block around it arrive after the subscriber" do
    store = open_store("memory:")
    holder = background do
      store.acquire("#{key}+", on_lost: :raise) do
        slow(store: store)
        store.acquire(key) { nil }
        sleep
      end
    end
    running.pop
    store.break("#{key}+")
    Plock::Dispatcher.flush
    heard = warnings do
      go << true
      expect { holder.value }.to raise_error(Plock::LeaseLost)
    end
    expect(heard).to be_empty
  end
end
