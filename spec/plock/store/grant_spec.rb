# frozen_string_literal: true

require "spec_helper"
require "plock/store/support/in_ruby"

# If an extension or a downgrade is interrupted, or its answer is lost, the server may have
# executed it, or may execute it later. The state of the lease must allow for both.
RSpec.describe Plock::Store::LeaseState do
  # A store that executes each request. If `failure` is set, each request raises this error instead.
  let(:store) do
    Class.new do
      attr_reader :spans, :tended
      attr_accessor :failure

      def initialize
        @spans = []
        @tended = []
      end

      def prolong(_grant, span)
        @spans << span
        raise failure if failure

        true
      end

      def prolong_all(grants, span)
        grants.each { |grant| yield grant, prolong(grant, span) }
      end

      def still?(_grant) = true

      def downgrade(_grant) = failure ? raise(failure) : true

      def tend(grant) = @tended << grant.due_at

      def forget(_grant) = nil

      def release_deadline = Plock::Clock.now + 2.0

      def give_back(*) = true
    end.new
  end
  let(:now) { Plock::Clock.now }

  def grant(**options) = described_class.new(store, "k", "t", **options).given(1, now, 30.0)

  def fail_to_extend(grant, ttl)
    store.failure = Plock::UnavailableError.new("silent", code: :silent)
    expect { grant.extend(ttl) }.to raise_error(Plock::UnavailableError)
    store.failure = nil
  end

  def look_after(grant) = Plock::Store::Renewal.call(store, [grant])

  it "ends by the shorter of the two spans where an extension is in doubt" do
    lease = grant
    fail_to_extend(lease, 1.0)
    expect(lease).to have_attributes(
      valid?: true, ttl: 30.0, valid_until: be_between(now, now + 1.0)
    )
    fail_to_extend(lease, 60.0)
    expect(lease.valid_until).to be <= now + 1.0
  end

  it "is looked after by the scheduler until then, so that its loss is told in time" do
    lease = grant(watch: true)
    fail_to_extend(lease, 1.0)
    expect([store.tended.last, lease.due_at]).to all(be <= now + 1.0)
  end

  it "is renewed in time, and for no more than what the server may make of it" do
    lease = grant(watch: true, renew: true)
    fail_to_extend(lease, 1.0)
    expect(lease.due_at).to be <= now + 0.5
    2.times do
      look_after(lease)
      expect(store.spans.last).to eq(1.0)
      expect(lease).to have_attributes(
        ttl: 30.0, valid_until: be_between(Plock::Clock.now, Plock::Clock.now + 1.0)
      )
      expect(lease.due_at).to be <= Plock::Clock.now + 0.5
    end
    expect(lease.extend(20.0)).to be(true) # the store answers, so this extension is certain
    look_after(lease)
    expect(store.spans.last).to eq(20.0)
  end

  it "is renewed as ever where the extension that is in doubt was longer" do
    lease = grant(watch: true, renew: true)
    fail_to_extend(lease, 60.0)
    look_after(lease)
    expect(store.spans.last).to eq(30.0)
  end

  it "is in doubt where an interrupt comes, too" do
    lease = grant(watch: true)
    store.failure = Interrupt
    expect { lease.extend(1.0) }.to raise_error(Interrupt)
    expect([lease.valid_until, lease.due_at]).to all(be <= now + 1.0)
  end

  it "reads where a downgrade is in doubt, and still writes where the store cannot do it" do
    lease = grant(share: Plock::Locking::Share::WRITE)
    store.failure = Plock::UnsupportedError.new("not here")
    expect { lease.downgrade }.to raise_error(Plock::UnsupportedError)
    expect(lease.share).to be(Plock::Locking::Share::WRITE)
    store.failure = Interrupt
    expect { lease.downgrade }.to raise_error(Interrupt)
    expect(lease.share).to be(Plock::Locking::Share::READ)
    store.failure = nil
    expect(lease.downgrade).to be(true)
  end

  it "answers nil, which is no loss, to what comes after its end" do
    lease = grant
    expect(lease.release(0.0)).to be(true)
    expect([lease.extend(1.0), lease.release(0.0), lease.leave, lease.lost?]).to eq(
      [nil, nil, nil, false]
    )
    lost = grant
    lost.lose
    expect([lost.extend(1.0), lost.release(0.0), lost.leave, lost.lost?]).to eq(
      [false, false, false, true]
    )
  end

  it "does not wait for the renewal of another one, once its own has been answered" do
    first, second = Array.new(2) { grant(renew: true) }
    asked = Thread::Queue.new
    go_on = Thread::Queue.new
    store.define_singleton_method(:prolong) do |lease, _span|
      next true unless lease.equal?(second)

      asked << lease
      go_on.pop
    end
    renewing = background { Plock::Store::Renewal.call(store, [first, second]) }
    Timeout.timeout(5) do
      asked.pop
      expect(first.release(0.0)).to be(true)
    end
    go_on << true
    renewing.join
    expect(second).to have_attributes(ended: nil, valid?: true)
  end
end
