# frozen_string_literal: true

require "spec_helper"
require "plock/store/support/in_ruby"
require "plock/store/support/connection_watch"
require "plock/store/advisory/lease_state"

RSpec.describe Plock::Store::Advisory::LeaseState do
  # A connection that the server has closed. Each check waits until the example lets it go on.
  let(:connection) do
    Class.new do
      attr_reader :begun, :going_on

      def initialize
        @begun = Queue.new
        @going_on = Queue.new
      end

      def lives?
        begun << true
        going_on.pop
        false
      end

      def socket = nil
    end.new
  end

  let(:store) do
    pool = Struct.new(:loan).new(Struct.new(:state, :connection).new(:lent, connection))
    Struct.new(:pool) do
      def tend(*) = nil

      def forget(*) = Mutex.new.synchronize { nil } # like a store's, this takes a mutex
    end.new(pool)
  end

  let(:lease) { described_class.new(store, "k", "t").given(1, Plock::Clock.now, 60) }

  after { connection.going_on.close } # no check waits from now on

  { lost?: true, valid?: false }.each do |question, answer|
    it "answers #{question} after the check that the watch has begun" do
      lease
      connection.begun.pop
      asking = await_sleep(background { lease.public_send(question) })
      connection.going_on << true
      expect(asking.value).to be(answer)
    end
  end

  it "waits no longer than a moment for such a check" do
    lease
    connection.begun.pop
    expect(elapsed { expect(lease).not_to be_lost }).to be < 1
    connection.going_on << true
  end

  it "does not wait for a request that another thread makes for the lease" do
    allow(connection).to receive(:lives?).and_return(true)
    asked = Queue.new
    store.define_singleton_method(:prolong) { |*| (asked << true) && sleep }
    background { lease.extend(60) }
    asked.pop
    allow(Kernel).to receive(:sleep).and_raise("a call waits")
    expect(lease).to be_valid
  end

  it "answers in a signal handler, and leaves it to the watch to note the loss" do
    # not a double of RSpec, which takes a mutex
    connection.define_singleton_method(:lives?) { Thread.current.name == "plock watch" }
    lease
    seen = in_handler { [lease.valid?, lease.lost?, lease.ended] }
    expect(seen).to eq([false, true, nil])
    expect([lease.lost?, lease.ended]).to eq([true, :lost])
  end

  def in_handler
    answers = Queue.new
    before = trap(:USR1) { answers << yield }
    Process.kill(:USR1, Process.pid)
    answers.pop
  ensure
    trap(:USR1, before)
  end
end
