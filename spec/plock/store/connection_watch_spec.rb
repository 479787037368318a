# frozen_string_literal: true

require "spec_helper"
require "socket"
require "plock/store/support/in_ruby"
require "plock/store/support/connection_watch"

RSpec.describe Plock::Store::ConnectionWatch do
  # Stands in for a connection. It notes each check, and returns the given answers in order.
  let(:kind) do
    Class.new do
      attr_reader :watched_io, :server, :checks

      def initialize(*answers, io: true)
        @server, socket = UNIXSocket.pair
        @watched_io = socket if io
        @answers = answers
        @checks = Queue.new
      end

      def notice_end
        answer = @answers.size > 1 ? @answers.shift : @answers.first
        answer.tap { @checks << answer }
      end

      # Wakes the watch, as a server does when it ends the connection.
      def end_it = @server.write("E")
    end
  end

  let(:long) { kind.new(:ended) }

  let(:thread) { -> { subject.instance_variable_get(:@thread) } }

  # A process that echoes lines, in place of a database. While a thread waits for the answer, other
  # threads can run.
  let(:echo) { discard(IO.popen("cat", "r+"), :close) }

  def threads_begun
    begun = 0
    allow(Plock::Background).to receive(:launch).and_wrap_original do |launch, *names, &run|
      begun += 1 if names.include?("plock watch") # counts no other kind of thread
      launch.call(*names, &run)
    end
    yield
    begun
  end

  # Acts as a lock that is held only for the time of one request to the server.
  def pair
    subject.add(one = kind.new(:ended))
    echo.puts("held?")
    echo.gets
    subject.remove(one)
    echo.puts("released?")
    echo.gets
  end

  def looks
    count = 0
    tracing = TracePoint.new(:c_call) do |point|
      count += 1 if point.method_id == :select && Thread.current.equal?(thread.call)
    end
    tracing.enable
    yield
    count
  ensure
    tracing.disable
  end

  def asleep? = subject.instance_variable_get(:@asleep)

  def checked(one) = Timeout.timeout(5) { one.checks.pop }

  after { subject.remove(long) }

  it "keeps its thread while locks come and go" do
    seconds = nil
    begun = threads_begun { seconds = elapsed { 20.times { pair } } }
    rests = seconds / (described_class::LOOKS * described_class::LOOK_S)
    expect(begun).to be_between(1, 1 + rests) # the thread may end after LOOKS looks
  end

  it "is not woken by the locks that come and go" do
    subject.add(long)
    seconds = nil
    count = looks { seconds = elapsed { 200.times { pair } } }
    expect(count).to be <= (seconds / described_class::LOOK_S) + 2
  end

  it "checks no connection that was removed" do
    gone = kind.new(:live)
    subject.add(gone)
    subject.remove(gone)
    gone.end_it
    subject.add(long)
    long.end_it
    expect(checked(long)).to be(:ended)
    expect(gone.checks).to be_empty
  end

  it "notices a loss while locks come and go" do
    subject.add(long)
    pair
    long.end_it
    pair while long.checks.empty?
    expect(checked(long)).to be(:ended)
  end

  it "checks a connection again that is in use, or has sent something else" do
    one = kind.new(:busy, :live, :ended)
    subject.add(one)
    one.end_it
    expect(Array.new(3) { checked(one) }).to eq(%i[busy live ended])
  end

  it "outlives a connection that is closed before it is removed" do
    closed = kind.new(:live)
    subject.add(closed)
    closed.watched_io.close
    subject.add(long)
    long.end_it
    expect(checked(long)).to be(:ended)
  end

  it "outlives a connection whose driver raises as soon as it is closed" do
    closed = kind.new(:live, :ended)
    subject.add(closed)
    closed.define_singleton_method(:watched_io) { raise "connection is closed" }
    closed.end_it
    2.times { checked(closed) }
    subject.add(long)
    long.end_it
    expect(checked(long)).to be(:ended)
  end

  describe "asleep, because no connection was added for a while" do
    before do
      subject.add(long)
      eventually { asleep? }
    end

    it "looks at nothing until it is woken" do
      expect(looks { sleep(5 * described_class::LOOK_S) }).to be <= 1
    end

    it "notices a loss" do
      long.end_it
      expect(checked(long)).to be(:ended)
    end

    it "notices the loss of a connection that is added then" do
      other = kind.new(:ended)
      other.end_it
      subject.add(other)
      expect(checked(other)).to be(:ended)
    end

    it "keeps no socket open that is closed then" do
      subject.remove(long)
      long.watched_io.close
      expect(long.server.wait_readable(5)&.read).to eq("")
    end

    it "still checks a connection whose socket is unknown" do
      unknown = kind.new(:live, :live, :live, :ended, io: false)
      subject.add(unknown)
      eventually { asleep? }
      4.times { checked(unknown) }
    end

    it "notices a loss after a check found that the connection was in use" do
      subject.add(one = kind.new(:busy, :live, :ended))
      eventually { asleep? }
      one.end_it
      expect(Array.new(3) { checked(one) }).to eq(%i[busy live ended])
    end
  end

  it "goes on looking while the process has no descriptor left for its pipe" do
    refused = Queue.new
    allow(IO).to receive(:pipe) { (refused << true) && raise(Errno::EMFILE) }
    subject.add(long)
    2.times { Timeout.timeout(5) { refused.pop } }
    long.end_it
    expect(checked(long)).to be(:ended)
  end

  it "has no thread and no pipe a while after the last connection" do
    subject.add(long)
    eventually { asleep? }
    subject.remove(long)
    eventually { thread.call.nil? }
    expect(subject.instance_variable_get(:@hears)).to be_nil
    subject.add(long)
    long.end_it
    expect(checked(long)).to be(:ended)
  end
end
