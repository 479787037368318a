# frozen_string_literal: true

require "spec_helper"
require "plock/compat/remote_lock"

RSpec.describe RemoteLock do
  it "needs an adapter" do
    expect { RemoteLock.new(Object.new) }.to raise_error(RuntimeError, "Invalid Adapter")
    expect(RemoteLock::Error.superclass).to be RuntimeError
  end

  # A Hash can be the adapter, because it has the methods store, delete and has_key?.
  describe "with the application's own adapter" do
    let(:adapter) { {} }
    let(:lock) { RemoteLock.new(adapter, "p") }

    it "tries through it" do
      lock.acquire_lock("k")
      expect(adapter).to eq({ "p|lock|k" => 60 })
      lock.release_lock("k")
      expect(adapter).to be_empty
    end

    it "sleeps between tries, longer and longer, and not after the last one" do
      pauses = []
      allow(Kernel).to receive(:sleep) { |pause| pauses << pause }
      allow(adapter).to receive(:store).and_return(false)
      allow(adapter).to receive(:has_key?).and_return(false)
      expect {
        lock.synchronize("k", initial_wait: 1, retries: 5) { raise "entered" }
      }.to raise_error(RemoteLock::Error)
      expect(adapter).to have_received(:store).exactly(5).times
      expect(pauses.zip([1..2, 2..4, 4..8, 8..16])).to all(
        satisfy { |pause, range| range.cover?(pause) }
      )
      expect(pauses.size).to eq 4
    end

    it "tries eleven times by default" do
      allow(Kernel).to receive(:sleep)
      allow(adapter).to receive(:store).and_return(false)
      expect { lock.acquire_lock("k") }.to raise_error(
        RemoteLock::Error, "Couldn't acquire lock for: k"
      )
      expect(adapter).to have_received(:store).with("p|lock|k", 60).exactly(11).times
    end

    it "does not release in a forked child that leaves the block, too" do
      child = nil
      lock.synchronize("k") do
        child = Process.fork
        Process.wait(child) if child
      end
      exit!(adapter.key?("p|lock|k") ? 0 : 1) unless child
      expect($?.exitstatus).to be 0
    end

    it "does not run the block if what a failed release has left cannot be released" do
      allow(adapter).to receive(:delete).and_raise(IOError, "away")
      expect { lock.synchronize("k") { nil } }.to raise_error(IOError, "away")
      expect { lock.synchronize("k") { raise "entered" } }.to raise_error(IOError, "away")
      expect { lock.acquire_lock("k") }.to raise_error(IOError, "away")
      allow(adapter).to receive(:delete).and_call_original
      expect(lock.synchronize("k", expiry: 9) { adapter.dup }).to eq({ "p|lock|k" => 9 })
      expect(adapter).to be_empty
    end

    it "does not enter with what a failed acquire has left" do
      broken = true
      allow(adapter).to receive(:store).and_wrap_original do |store, *arguments|
        store.call(*arguments)
        next true unless broken

        broken = false
        raise Plock::UnavailableError.new("no answer", code: :timed_out)
      end
      expect { lock.synchronize("k") { raise "entered" } }.to raise_error(Plock::UnavailableError)
      expect(adapter).to eq({ "p|lock|k" => 60 })
      expect(lock.synchronize("k", expiry: 9) { adapter.dup }).to eq({ "p|lock|k" => 9 })
      expect(adapter).to be_empty
    end

    it "enters again what it acquired after a failed release" do
      broken = true
      allow(adapter).to receive(:delete).and_wrap_original do |delete, *arguments|
        broken ? raise(IOError) : delete.call(*arguments)
      end
      expect { lock.synchronize("k") { nil } }.to raise_error(IOError)
      broken = false
      lock.acquire_lock("k", expiry: 9)
      expect(lock.synchronize("k") { adapter.dup }).to eq({ "p|lock|k" => 9 })
      expect(adapter).to eq({ "p|lock|k" => 9 })
    end

    it "raises the error of its store, also where the look for the lock fails" do
      allow(adapter).to receive(:store).and_raise(IOError, "first")
      looks = 0
      allow(adapter).to receive(:has_key?) { (looks += 1) > 1 && raise(IOError, "second") }
      expect { lock.synchronize("k") { raise "entered" } }.to raise_error(IOError, "first")
      expect(looks).to be 2
    end

    it "tries without end if it is told to" do
      tries = 0
      allow(Kernel).to receive(:sleep)
      allow(adapter).to receive(:store) { (tries += 1) > 3_000 }
      lock.acquire_lock("k", retries: Float::INFINITY)
      expect(tries).to be 3_001
    end

    # This adapter deletes a lock without checking its owner, as the original's adapters do. So the
    # interrupted waiter must not call `delete`.
    it "leaves the holder's lock alone if a waiter is interrupted" do
      owner = -> { Thread.current.object_id }
      held = {}
      adapter = Object.new
      adapter.define_singleton_method(:store) { |key, _| !held.key?(key) && held[key] = owner.call }
      adapter.define_singleton_method(:has_key?) { |key| held[key] == owner.call }
      adapter.define_singleton_method(:delete) { |key| held.delete(key) }
      lock = RemoteLock.new(adapter)
      lock.acquire_lock("k")
      Thread.new do
        expect {
          Timeout.timeout(0.05) { lock.synchronize("k") { raise "entered" } }
        }.to raise_error(Timeout::Error)
      end.join
      expect(lock.acquired?("k")).to be true
    end
  end

  it "adds up any number of pauses" do
    lock = RemoteLock.new(RemoteLock::Adapters::Store.new("memory:"))
    Thread.new { lock.acquire_lock("k") }.join
    Timeout.timeout(5) do
      expect { lock.acquire_lock("k", initial_wait: 0, retries: 5_000) }.to raise_error(
        RemoteLock::Error
      )
      free = [2_000, 20_000_000, Float::INFINITY].map do |tries|
        lock.synchronize("free", retries: tries) { tries }
      end
      expect(free).to eq [2_000, 20_000_000, Float::INFINITY]
    end
  end

  describe "wrap_in_transaction" do
    let(:lock) { RemoteLock.new(RemoteLock::Adapters::Store.new("memory:")) }

    # A class that records the calls of ActiveRecord around a block.
    def recording(deeds)
      Class.new do
        define_singleton_method(:transaction) do |&block|
          deeds << :begin
          block.call.tap { deeds << :commit }
        end
      end
    end

    it "commits before the lock is released" do
      deeds = []
      store = lock.instance_variable_get(:@adapter)
      allow(store).to receive(:delete).and_wrap_original { |original, *arguments|
        deeds << :release && original.call(*arguments)
      }
      expect(
        lock.synchronize("k", wrap_in_transaction: recording(deeds)) { deeds << :run && 7 }
      ).to be 7
      expect(deeds).to eq %i[begin run commit release]
    end

    it "means ActiveRecord::Base where it is true" do
      deeds = []
      stub_const("ActiveRecord::Base", recording(deeds))
      lock.synchronize_all(%w[a b], wrap_in_transaction: true) { deeds << :run }
      expect(deeds).to eq %i[begin run commit]
    end

    it "has to be something with transactions" do
      expect { lock.synchronize("k", wrap_in_transaction: 5) { raise "entered" } }.to raise_error(
        ArgumentError, /wrap_in_transaction/
      )
    end
  end

  it "loads no client library" do
    output, status =
      ruby('require "plock/compat/remote_lock"; RemoteLock::Adapters::Redis; puts $LOADED_FEATURES')
    expect(status).to be_success, output
    expect(
      output
        .lines
        .grep_v(%r{/lib/plock/})
        .grep(%r{/(redis|redis-client|dalli|active_record|active_support)\.rb})
    ).to be_empty
  end

  it "says what an adapter cannot be made of" do
    expect { RemoteLock::Adapters::Redis.new("memory:") }.to raise_error(
      ArgumentError, /memory: is not in Redis: use RemoteLock::Adapters::Store/
    )
    expect { RemoteLock::Adapters::Redis.new(Object.new) }.to raise_error(Plock::ConfigurationError)
    expect { RemoteLock::Adapters::Base.new(nil).store("k", 1) }.to raise_error(NotImplementedError)
    expect { RemoteLock::Adapters::Base.new(nil).has_key?("k") }.to raise_error(NotImplementedError)
    expect { RemoteLock::Adapters::Base.new(nil).delete("k") }.to raise_error(NotImplementedError)
  end
end
