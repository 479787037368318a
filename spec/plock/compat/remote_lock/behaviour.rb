# frozen_string_literal: true

require "support/store_contract/helpers"

# The promises of RemoteLock on every adapter. The including group defines `adapter`, and also
# `another_adapter`, a second adapter for the same locks.
RSpec.shared_examples "a remote lock" do
  include Support::StoreContract

  let(:short) { 0.1 } # in seconds; the shortest possible expiry
  let(:lock) { RemoteLock.new(adapter) }
  let(:key) { "key-#{SecureRandom.hex(8)}" }
  let(:name) { "lock|#{key}" }

  # Runs the block as another owner.
  def elsewhere(&block) = Thread.new(&block).value

  describe "#synchronize" do
    it "runs the block with the lock, and returns its value" do
      expect(lock.synchronize(key) { [lock.acquired?(key), adapter.has_key?(name)] }).to eq [
        true,
        true
      ]
      expect(lock.acquired?(key)).to be false
    end

    it "releases on every way out" do
      expect { lock.synchronize(key) { raise IOError } }.to raise_error(IOError)
      catch(:out) { lock.synchronize(key) { throw :out } }
      [1].each { lock.synchronize(key) { break } }
      expect(elsewhere { lock.synchronize(key, retries: 1) { :free } }).to be :free
    end

    it "runs the block of a caller that holds the lock, and does not release it" do
      lock.synchronize(key) do
        expect(lock.synchronize(key, retries: 0) { :inside }).to be :inside
        expect(lock.acquired?(key)).to be true
      end
      expect(lock.acquired?(key)).to be false
    end

    it "does not run the block if another caller holds the lock" do
      lock.acquire_lock(key)
      elsewhere do
        expect(lock.acquired?(key)).to be false
        expect { lock.synchronize(key, retries: 2, initial_wait: 0.001) { raise "entered" } }
          .to raise_error(RemoteLock::Error, "Couldn't acquire lock for: #{key}")
      end
      expect(lock.acquired?(key)).to be true
    end

    it "holds several locks at a time, each by itself" do
      lock.synchronize(key) do
        lock.synchronize("#{key}-2") do
          expect(lock.acquired?(key) && lock.acquired?("#{key}-2")).to be true
        end
        expect(lock.acquired?(key)).to be true
      end
    end

    it "does not enter with what a failed release of this fiber has left" do
      broken = true
      allow(adapter).to receive(:delete).and_wrap_original do |delete, *arguments|
        next delete.call(*arguments) unless broken

        broken = false
        raise Plock::UnavailableError.new("away", code: :io)
      end
      said = warnings { lock.synchronize(key) { nil } }
      expect(said).to match [/could not be released/]
      allow(adapter).to receive(:store).and_call_original
      lock.synchronize(key, expiry: 90) { expect(lock.acquired?(key)).to be true }
      expect(adapter).to have_received(:store).with(name, 90).once
      expect(lock.acquired?(key)).to be false
    end

    it "keeps its lock if a release that had failed is carried out late" do
      owner = adapter.send(:uid)
      broken = true
      allow(adapter).to receive(:delete).and_wrap_original do |delete, *arguments|
        next delete.call(*arguments) unless broken

        broken = false
        raise Plock::UnavailableError.new("no answer", code: :timed_out)
      end
      warnings { lock.synchronize(key) { nil } }
      lock.synchronize(key) do
        allow(another_adapter).to receive(:uid).and_return(owner)
        expect(elsewhere { another_adapter.delete(name) }).to be false
        expect(lock.synchronize(key) { lock.acquired?(key) }).to be true
      end
      expect(lock.acquired?(key)).to be false
    end

    it "knows what was left, through another adapter to the same place, too" do
      allow(adapter).to receive(:delete).and_raise(Plock::UnavailableError.new("away", code: :io))
      warnings { lock.synchronize(key) { nil } }
      other = RemoteLock.new(another_adapter)
      expect(other.acquired?(key)).to be true
      other.synchronize(key) { other.synchronize(key) { nil } }
      expect(other.acquired?(key)).to be false
    end

    it "leaves nothing to another fiber of the thread" do
      lock.synchronize(key) do
        Fiber
          .new do
            expect { lock.synchronize(key, retries: 1) { raise "entered" } }.to raise_error(
              RemoteLock::Error
            )
          end
          .resume
      end
    end
  end

  describe "#synchronize_all" do
    it "holds all of them, and none where one cannot be had" do
      keys = [key, "#{key}-2", key]
      expect(lock.synchronize_all(keys) { keys.all? { |one| lock.acquired?(one) } }).to be true
      elsewhere { lock.acquire_lock("#{key}-2") }
      expect { lock.synchronize_all(keys, retries: 1) { raise "entered" } }.to raise_error(
        RemoteLock::Error
      )
      expect(lock.acquired?(key)).to be false
    end
  end

  describe "#acquire_lock" do
    it "returns nil, and the key has the prefix" do
      expect(RemoteLock.new(adapter, "staging").acquire_lock(key)).to be_nil
      expect(adapter.has_key?("staging|lock|#{key}")).to be true
    end

    it "is not for one who has the lock" do
      lock.acquire_lock(key)
      expect { lock.acquire_lock(key, retries: 2, initial_wait: 0.001) }.to raise_error(
        RemoteLock::Error
      )
      expect(lock.acquired?(key)).to be true
    end

    it "does not try at all with retries: 0" do
      expect { lock.acquire_lock(key, retries: 0) }.to raise_error(RemoteLock::Error)
      expect(lock.acquire_lock(key, retries: 1)).to be_nil
    end

    it "waits as long as the tries and pauses would have taken", :timing do
      allow(lock).to receive(:rand).and_return(0.0)
      elsewhere { lock.acquire_lock(key) }
      for_as_long_as(0.07) do
        expect { lock.acquire_lock(key, retries: 4) }.to raise_error(RemoteLock::Error)
      end
    end

    it "has the lock when its holder leaves" do
      lock.acquire_lock(key)
      waiter = await_sleep(background { [lock.acquire_lock(key), lock.acquired?(key)] })
      lock.release_lock(key)
      expect(waiter.value).to eq [nil, true]
    end

    it "has the lock when its time is over" do
      elsewhere { lock.acquire_lock(key, expiry: short) }
      expect(lock.acquire_lock(key)).to be_nil
    end

    it "says what cannot be right" do
      expect { lock.acquire_lock(key, expiry: 0) }.to raise_error(
        ArgumentError, /expiry must be more than 0 seconds.*got 0/
      )
      expect { lock.acquire_lock(key, expiry: nil) }.to raise_error(ArgumentError, /expiry/)
      expect { lock.acquire_lock(key, retries: 1.5) }.to raise_error(ArgumentError, /retries/)
      expect { lock.acquire_lock(key, initial_wait: -1) }.to raise_error(
        ArgumentError, /initial_wait/
      )
      expect { lock.acquire_lock(key, expires: 1) }.to raise_error(
        ArgumentError, "unknown option: :expires"
      )
    end

    it "takes a span as Rails has it" do
      expect(lock.acquire_lock(key, expiry: 30.seconds)).to be_nil
    end

    it "leaves nothing behind where it is interrupted while it waits" do
      inside, leave = Queue.new, Queue.new
      holder = background { lock.synchronize(key) { inside << true && leave.pop } }
      inside.pop
      expect { Timeout.timeout(0.05) { lock.synchronize(key) { raise "entered" } } }.to raise_error(
        Timeout::Error
      )
      await_sleep(background { lock.synchronize(key) { raise "entered" } }).kill.join
      leave << true
      holder.join
      # The acquire needs retries, because the interrupted waiters may leave the queue in the
      # background, a moment later.
      expect(lock.synchronize(key, retries: 9) { :mine }).to be :mine
    end
  end

  describe "#release_lock" do
    it "releases, also through another adapter" do
      lock.acquire_lock(key)
      expect(RemoteLock.new(another_adapter).release_lock(key)).to be true
      expect(lock.release_lock(key)).to be false
      expect(elsewhere { lock.acquire_lock(key, retries: 1) }).to be_nil
    end

    it "does not release another owner's lock" do
      lock.acquire_lock(key)
      expect(elsewhere { lock.release_lock(key) }).to be false
      expect(lock.acquired?(key)).to be true
    end

    it "never frees the next holder's lock where it comes too late" do
      lock && key # made here, because the child also needs them
      late = child do |parent|
        lock.acquire_lock(key, expiry: short)
        parent.tell(:held)
        parent.hear
        lock.release_lock(key)
      end
      late.hear
      lock.acquire_lock(key)
      late.tell(:release)
      expect(late.result).to be false
      expect(lock.acquired?(key)).to be true
    end

    it "is warned of where it comes too late for a block" do
      said = warnings do
        lock.synchronize(key, expiry: short) { elsewhere { lock.acquire_lock(key) } }
      end
      expect(said).to contain_exactly(/the lock "lock\|#{key}" was lost before its block ended/)
    end

    it "works in a child that is forked while other threads lock" do
      lock # made before the fork
      stop = false
      busy =
        Array.new(2) do |number|
          background { lock.synchronize("#{key}-#{number}") { nil } until stop }
        end
      expect(
        Array
          .new(5) { |number| child { lock.synchronize("#{key}-child-#{number}") { :in } } }
          .map(&:result)
      ).to all(be(:in))
      stop = true
      busy.each(&:join)
    end

    it "is its parent's alone where a block is forked in two" do
      child = ended = kept = nil
      said = warnings do
        lock.synchronize(key) do
          child = Process.fork
          next unless child # in the child, the block ends here

          ended = Process.wait2(child).last
          kept = lock.acquired?(key)
        end
      end
      exit!(said.empty? ? 0 : 1) unless child
      expect([ended.exitstatus, kept, said]).to eq [0, true, []]
    end

    it "leaves a parent's lock alone in a forked child" do
      lock.synchronize(key) do
        expect(in_child { [lock.acquired?(key), lock.release_lock(key)] }).to eq [false, false]
        expect(lock.acquired?(key)).to be true
      end
    end
  end

  it "leaves nothing behind, at whatever step it is interrupted" do
    lock.synchronize(key) { nil }
    interrupted_everywhere(-> { lock.synchronize(key) { nil } }) do
      elsewhere { lock.synchronize(key, retries: 9) { nil } }
    end
  end

  it "asks again and again where Kernel.sleep, or a method of the adapter, is not the one it was" do
    pauses = []
    allow(Kernel).to receive(:sleep) { |pause| pauses << pause }
    allow(adapter).to receive(:store).and_return(false, false, true)
    expect(lock.acquire_lock(key, expiry: 42)).to be_nil
    expect(adapter).to have_received(:store).with(name, 42).exactly(3).times
    expect(pauses).to match [a_value_between(0.01, 0.02), a_value_between(0.02, 0.04)]
  end
end

# Processes of the original gem exclude callers of plock's lock, and are excluded by them. The
# including group defines `lock`, `key` and `original`, a process of the original gem.
RSpec.shared_examples "a remote lock beside processes of the original" do
  it "is excluded by them, and has the lock when they leave" do
    expect(original.acquire(key)).to eq "acquired"
    expect(lock.acquired?(key)).to be false
    expect { lock.acquire_lock(key, retries: 2) }.to raise_error(RemoteLock::Error)
    waiter = await_sleep(background { lock.synchronize(key) { :mine } })
    original.release(key)
    expect(waiter.value).to be :mine
  end

  it "excludes them, and they have the lock when we leave" do
    lock.synchronize(key) do
      expect(original.acquire(key)).to eq "refused"
      expect(original.acquired?(key)).to be false
      original.say("acquire", key, 60, 11)
    end
    expect(original.hear).to eq "acquired"
    expect(original.acquired?(key)).to be true
  end

  it "does not take a lock away that one of them got after ours was over" do
    lock.acquire_lock(key, expiry: 1)
    eventually { original.acquire(key) == "acquired" }
    expect(lock.release_lock(key)).to be false
    expect(original.acquired?(key)).to be true
  end
end
