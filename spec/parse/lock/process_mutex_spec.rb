# frozen_string_literal: true

require "parse/lock"

RSpec.describe Parse::Lock::ProcessMutex do
  subject(:mutex) { mutexes["key"] }

  let(:mutexes) { Parse::Lock::ProcessMutexes.new(3) }

  it "locks and unlocks" do
    expect(mutex.lock).to be(mutex)
    expect([mutex.locked?, mutex.owned?]).to eq([true, true])
    expect(mutex.unlock).to be(mutex)
    expect([mutex.locked?, mutex.owned?]).to eq([false, false])
  end

  it "tries" do
    expect(mutex.try_lock).to be(true)
    expect(mutex.try_lock).to be(false)
  end

  it "synchronizes" do
    expect(mutex.synchronize { [mutex.owned?, :value] }).to eq([true, :value])
    expect(mutex).not_to be_locked
  end

  it "is free after an exception" do
    expect { mutex.synchronize { raise KeyError } }.to raise_error(KeyError)
    expect(mutex).not_to be_locked
  end

  it "waits without end" do
    mutex.lock
    waiter = background { mutex.synchronize { :value } }
    await_sleep(waiter)
    mutex.unlock
    expect(waiter.value).to be(:value)
  end

  it "refuses to be locked twice by one fiber" do
    mutex.lock
    expect { mutex.lock }.to raise_error(ThreadError, /recursive/)
    expect { mutex.synchronize { :never } }.to raise_error(ThreadError, /recursive/)
    expect(mutex).to be_owned
  end

  it "refuses to be unlocked by another" do
    mutex.lock
    refused = background do
      mutex.unlock
    rescue ThreadError => e
      e
    end
    expect(refused.value).to be_a(ThreadError)
    expect(mutex).to be_owned
  end

  it "stays the mutex of its key when others have taken its place in the list" do
    mutex
    %w[a b c d].each { |key| mutexes[key] }
    holder = await_sleep(background { mutexes["key"].synchronize { sleep } })
    expect([mutex.locked?, mutex.try_lock]).to eq([true, false])
    holder.kill.join
    expect(mutex.try_lock).to be(true)
    expect(mutexes["key"].try_lock).to be(false)
  end

  it "is kept as long as it is locked" do
    mutex.lock
    %w[a b c d].each { |key| mutexes[key] }
    expect(mutexes["key"]).to be(mutex)
  end

  it "does not show its key" do
    expect(mutex.inspect).to eq("#<Parse::Lock::ProcessMutex free>")
  end
end
