# frozen_string_literal: true

require "spec_helper"
require "plock/store/support/lease_state"

RSpec.describe Plock::Store::LeaseState do
  # A store whose extensions wait for an answer from the example.
  let(:store) do
    Class.new do
      attr_reader :asked, :answers, :later

      def initialize
        @asked = Queue.new
        @answers = Queue.new
        @later = []
      end

      def tend(*) = nil

      def forget(*) = nil

      def prolong(*) = (asked << true) && answers.pop

      def release_deadline = Plock::Clock.now + 0.2

      def give_back(*) = raise("it is another's turn")

      def give_back_later(_lease, keep) = later << keep
    end.new
  end

  it "is released in the background if the fiber is stopped that waits for its turn", :fibers do
    lease = described_class.new(store, "k", "t").given(1, Plock::Clock.now, 60)
    extension = background { lease.extend(30) }
    store.asked.pop
    Sync { |task| task.async { lease.release(5.0) }.stop }
    expect([lease.ended, store.later]).to eq([:released, [5.0]])
    store.answers << true
    extension.join
    expect(lease.release(0.0)).to be_nil
  end

  it "goes to the next waiting call if the one that it called is interrupted" do
    lease = described_class.new(store, "k", "t").given(1, Plock::Clock.now, 60)
    waiters = []
    extension = background do
      lease.extend(30)
      waiters.first.raise(IOError) # it has not run since the lease was free
    end
    store.asked.pop
    2.times do
      waiters << background { lease.extend(30) }
      eventually { waiters.last.stop? }
    end
    waiters.first.report_on_exception = false
    3.times { store.answers << true }
    extension.join(5)
    expect { waiters.first.join(5) }.to raise_error(IOError)
    expect(waiters.last.join(5)&.value).to be(true)
  end

  # @return [Array<Thread>] threads that wait for an extension that has no answer
  def queue_behind_extension(lease, count, &call)
    @extension = background { lease.extend(30) }
    store.asked.pop
    Array.new(count) { await_sleep(background(&call)) }
  end

  it "lets a call be interrupted while it waits for another one" do
    lease = described_class.new(store, "k", "t").given(1, Plock::Clock.now, 60)
    killed, raising = queue_behind_extension(lease, 2) { lease.extend(30) }
    killed.kill
    raising.report_on_exception = false
    raising.raise(IOError)
    expect(killed.join(5)).to be(killed)
    expect { raising.join(5) }.to raise_error(IOError)
    store.answers << true
    @extension.join
  end

  it "ends a release in time although an earlier call has no answer" do
    lease = described_class.new(store, "k", "t").given(1, Plock::Clock.now, 60)
    queue_behind_extension(lease, 0)
    began_at = Plock::Clock.now
    expect { lease.release(0.0) }.to raise_error(Plock::UnavailableError) { |error|
      expect(error.code).to be(:in_use)
    }
    expect(Plock::Clock.now - began_at).to be_between(0.2, 0.4)
    expect([lease.ended, store.later]).to eq([:released, [0.0]])
    store.answers << true
    expect([@extension.value, lease.due_at]).to eq([nil, nil])
  end

  it "hands a lease over in time, or not at all, although an earlier call has no answer" do
    lease = described_class.new(store, "k", "t").given(1, Plock::Clock.now, 60)
    queue_behind_extension(lease, 0)
    expect { lease.leave }.to raise_error(Plock::UnavailableError)
    store.answers << true
    expect([@extension.value, lease.ended, lease.leave,
            lease.ended]).to eq([true, nil, true, :given])
  end

  it "serves calls in their order" do
    lease = described_class.new(store, "k", "t").given(1, Plock::Clock.now, 60)
    order = []
    waiters = queue_behind_extension(lease, 0)
    4.times do |number|
      waiters << await_sleep(background { lease.extend(30).tap { order << number } })
    end
    5.times { store.answers << true }
    waiters.each(&:join)
    expect(order).to eq([0, 1, 2, 3])
  end

  it "is refused a release or a hand-over in a signal handler, and stays as it was" do
    lease = described_class.new(store, "k", "t").given(1, Plock::Clock.now, 60)
    refused = nil
    before = trap("USR2") do
      refused = [-> { lease.leave }, -> { lease.release(0.0) }].count do |call|
        call.call && false
      rescue ThreadError
        true
      end
    end
    Process.kill("USR2", Process.pid)
    expect(eventually { refused }).to eq(2)
    expect(lease).to have_attributes(ended: nil, valid?: true)
    store.define_singleton_method(:give_back) { |*| true }
    expect(lease.release(0.0)).to be(true)
  ensure
    trap("USR2", before) if before
  end

  it "does not wait for a call to say that a lost lease cannot be released" do
    lease = described_class.new(store, "k", "t").given(1, Plock::Clock.now, 60)
    queue_behind_extension(lease, 0)
    lease.lose
    expect(lease.release(0.0)).to be(false)
    store.answers << true
    @extension.join
  end

  it "is not looked at again after a check that it has not waited for" do
    lease = described_class.new(store, "k", "t", watch: true).given(1, Plock::Clock.now, 60)
    lease.release_later(0.0)
    lease.seen
    expect(lease.due_at).to be_nil
  end

  it "asks no more for calls that still wait when a release begins" do
    lease = described_class.new(store, "k", "t").given(1, Plock::Clock.now, 60)
    waiters = queue_behind_extension(lease, 3) { lease.extend(30) }
    store.define_singleton_method(:give_back) { |*| true }
    store.define_singleton_method(:release_deadline) { Plock::Clock.now + 5.0 }
    release = await_sleep(background { lease.release(0.0) })
    store.answers << true
    expect(release.value).to be(true)
    expect(waiters.map(&:value)).to eq([nil] * 3)
    expect(store.asked).to be_empty
  end

  it "refuses to wait for a call of the same fiber" do
    lease = described_class.new(store, "k", "t").given(1, Plock::Clock.now, 60)
    store.define_singleton_method(:prolong) { |one, *| one.extend(30) }
    expect { lease.extend(30) }.to raise_error(ThreadError)
    expect(lease.valid?).to be(true)
  end
end
