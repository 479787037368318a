# frozen_string_literal: true

require "parse/lock"

RSpec.describe Parse::Lock::ProcessMutexes do
  subject(:mutexes) { described_class.new(3) }

  # A thread that holds the key's mutex until the example calls the returned lambda.
  def held(key)
    leave = Queue.new
    thread = await_sleep(background { mutexes.hold(key, 0, Object.new) { leave.pop } })
    -> { leave.push(:out) && thread.join }
  end

  it "keeps 4096 unless it is told otherwise" do
    all = described_class.new
    4_100.times { |i| all["key #{i}"] }
    expect(all.size).to be(4_096)
  end

  it "has one mutex for a key" do
    expect(mutexes["a"]).to be(mutexes["a".dup])
    expect(mutexes["a"]).not_to be(mutexes["b"])
  end

  it "forgets the one that was used longest ago" do
    first = %w[a b c].to_h { |key| [key, mutexes[key]] }
    mutexes["a"]
    mutexes["d"]
    expect(mutexes["a"]).to be(first["a"])
    expect(mutexes["c"]).to be(first["c"])
    expect(mutexes["b"]).not_to be(first["b"])
  end

  it "never forgets one that is held, and grows instead" do
    leave = %w[a b c].map { |key| held(key) }
    before = %w[a b c].map { |key| mutexes[key] }
    mutexes["d"]
    expect(mutexes.size).to be(4)
    expect(%w[a b c].map { |key| mutexes[key] }).to eq(before)
    leave.each(&:call)
  end

  it "shrinks again when it can" do
    leave = %w[a b c].map { |key| held(key) }
    mutexes["d"]
    leave.each(&:call)
    mutexes["e"]
    expect(mutexes.size).to be(3)
  end

  it "never forgets one that a thread is about to take" do
    mutex = mutexes["a"]
    allow_any_instance_of(Parse::Lock::ClaimedMutex).to receive(
      :take
    ).and_wrap_original do |original, *arguments| # rubocop:disable RSpec/AnyInstance
      %w[b c d e].each { |key| mutexes[key] } # as other threads may do at this moment
      original.call(*arguments)
    end
    mutexes.hold("a", 0, Object.new) { expect(mutexes["a"]).to be(mutex) }
  end

  it "never forgets one that a thread waits for" do
    leave = held("a")
    waiter = await_sleep(background { mutexes.hold("a", 20, Object.new) { |mine| mine } })
    before = mutexes["a"]
    %w[b c d e].each { |key| mutexes[key] }
    expect(mutexes["a"]).to be(before)
    leave.call
    expect(waiter.value).to be(true)
  end

  describe "#hold" do
    it "returns the block's value" do
      expect(mutexes.hold("a", 0, Object.new) { |held| [held, :value] }).to eq([true, :value])
    end

    it "tells the block that patience ended" do
      leave = held("a")
      expect(mutexes.hold("a", 0.05, Object.new) { |held| held }).to be(false)
      leave.call
    end

    it "frees the mutex on every way out" do
      expect { mutexes.hold("a", 0, Object.new) { raise KeyError } }.to raise_error(KeyError)
      catch(:out) { mutexes.hold("a", 0, Object.new) { throw :out } }
      expect(mutexes.hold("a", 0, Object.new) { |held| held }).to be(true)
    end
  end

  describe "#synchronize" do
    it "holds the key's mutex for as long as the block runs" do
      expect(mutexes.synchronize("a") { mutexes["a"].owned? }).to be(true)
      expect(mutexes["a"]).not_to be_locked
    end

    it "refuses a second time in the same fiber" do
      expect { mutexes.synchronize("a") { mutexes.synchronize("a") { :never } } }.to raise_error(
        ThreadError
      )
    end
  end

  it "forgets unused ones on demand" do
    leave = held("a")
    before = mutexes["a"]
    mutexes["b"]
    mutexes.clear
    expect(mutexes.size).to be(1)
    expect(mutexes["a"]).to be(before)
    leave.call
  end

  it "is empty in a forked child: the child holds no lock of the parent's threads" do
    leave = held("a")
    expect(in_child { |_parent| mutexes.hold("a", 0, Object.new) { |held| held } }).to be(true)
    leave.call
  end
end
