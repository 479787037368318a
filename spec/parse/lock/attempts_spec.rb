# frozen_string_literal: true

require "moneta"
require_relative "../parse_context"

RSpec.describe Parse::Lock::Attempts do
  include_context "with Parse"

  # An application's store that has locks of its own, and that can be told to fail. It records all
  # requests.
  let(:native_class) do
    Class.new do
      attr_reader :owners, :asked
      attr_accessor :trouble

      def initialize
        @owners = {}
        @asked = []
      end

      def lock_acquire(key, owner, ttl)
        @asked << [:acquire, key, owner, ttl]
        raise trouble if trouble
        return false if @owners.key?(key)

        @owners[key] = owner
        true
      end

      def lock_release(key, owner)
        @asked << [:release, key, owner]
        raise trouble if trouble

        @owners[key] == owner && @owners.delete(key) && true
      end
    end
  end

  let(:native) { native_class.new }
  # A store of the same kind, but with Moneta's methods.
  let(:moneta) do
    Class.new do
      attr_reader :values, :asked

      def initialize
        @values = {}
        @asked = []
      end

      def key?(key) = (@asked << [:key?, key]) && @values.key?(key)

      def create(key, value, expires:)
        @asked << [:create, key, value, expires]
        !@values.key?(key) && (@values[key] = value) && true
      end

      def [](key) = (@asked << [:[], key]) && @values[key]

      def delete(key) = (@asked << [:delete, key]) && @values.delete(key)
    end.new
  end

  describe "the protocol lock_acquire and lock_release" do
    before { Parse.synchronize_create_store = native }

    it "is called as it is" do
      token = acquire(ttl: 7) { |owner| owner }
      expect(native.asked).to eq([[:acquire, store_key, token, 7], [:release, store_key, token]])
    end

    it "gives the block's value and releases on every way out" do
      expect(acquire { :value }).to be(:value)
      expect(acquire { break :broken }).to be(:broken)
      expect { acquire { raise KeyError } }.to raise_error(KeyError)
      expect(native.owners).to be_empty
    end

    it "is not called by a child that was forked inside the block" do
      Parse.synchronize_create_store =
        Moneta.new(:Redis, path: shared_redis.unix_path, compress: true)
      suite = Process.pid
      values = acquire do
        pid = Process.fork
        next unless pid # the child leaves the block

        Process.wait(pid)
        held?
      end
      exit!(0) unless Process.pid == suite
      expect(values).to be(true)
    ensure
      exit!(1) unless Process.pid == suite
    end

    it "is served under a namespace of its own, too" do
      expect(Parse::LockBackend.try_acquire(native, "parse-stack:foc:v1:x", "owner", 3)).to be(true)
      expect(Parse::LockBackend.release(native, "parse-stack:foc:v1:x", "owner")).to be(true)
    end
  end

  describe "the protocol of Moneta" do
    before { Parse.synchronize_create_store = moneta }

    it "is called as it is" do
      token = acquire(ttl: 7) { |owner| owner }
      expect(moneta.asked).to eq(
        [[:key?, store_key], [:create, store_key, token, 7], [:[], store_key], [:delete, store_key]]
      )
    end

    it "deletes no lock of another owner" do
      acquire { moneta.values[store_key] = "another" }
      expect(moneta.values).to eq(store_key => "another")
    end

    it "works with Moneta over files" do
      Parse.synchronize_create_store =
        Moneta.new(:File, dir: File.join(Support::Supervisor.folder, "moneta"))
      expect(
        acquire { expect { acquire(wait: 0) { :never } }.to raise_error(Parse::Lock::TimeoutError) }
      ).to be_truthy
      expect(acquire { :again }).to be(:again)
    end

    it "works with Moneta over Redis that compresses values" do
      Parse.synchronize_create_store =
        store = Moneta.new(:Redis, path: shared_redis.unix_path, compress: true)
      token, stored = acquire { |owner| [owner, store[store_key]] }
      expect(stored).to eq(token)
      expect(held?).to be(false)
    end
  end

  describe "waiting" do
    before { Parse.synchronize_create_store = native }

    it "asks exactly once with wait: 0" do
      native.owners[store_key] = "another"
      expect { acquire(wait: 0) { :never } }.to raise_error(
        Parse::Lock::TimeoutError,
        "Parse::Lock.acquire: could not acquire #{key.inspect} within 0.0s"
      )
      expect(native.asked.map(&:first)).to eq(%i[acquire])
    end

    it "asks again from time to time, a last time when patience ends" do
      native.owners[store_key] = "another"
      clock = 1_000.0
      pauses = []
      allow(described_class).to receive(:now) { clock }
      allow(described_class).to receive(:sleep) { |seconds| pauses << seconds && clock += seconds }
      expect { acquire(wait: 0.3) { :never } }.to raise_error(Parse::Lock::TimeoutError)
      expect(pauses.sum).to be_within(1e-9).of(0.3)
      expect(pauses[0...-1]).to all(be_between(0.035, 0.065))
      expect(native.asked.size).to be(pauses.size + 1)
    end

    it "ends when patience does", :timing do
      native.owners[store_key] = "another"
      for_as_long_as(0.2) do
        expect { acquire(wait: 0.2) { :never } }.to raise_error(Parse::Lock::TimeoutError)
      end
    end

    it "ends when the lock is free" do
      native.owners[store_key] = "another"
      waiter = background { acquire(wait: 20) { :mine } }
      await_sleep(waiter)
      native.owners.clear
      expect(waiter.value).to be(:mine)
    end

    it "keeps its interval within 35 to 65 ms, and does not keep step" do
      intervals = Array.new(500) { described_class.interval }
      expect(intervals).to all(be_between(0.035, 0.065))
      expect(intervals.uniq.size).to be > 400
    end
  end

  describe "a block that runs longer than its ttl" do
    it "is warned of", :timing do
      Parse.synchronize_create_store = native
      expect(warnings { acquire(ttl: 1) { sleep 1.1 } }).to contain_exactly(
        /ran 1\.\d+s, exceeding ttl: 1s/
      )
      expect(native.owners).to be_empty
    end
  end

  describe "a store that fails" do
    before do
      Parse.synchronize_create_store = native
      native.trouble = IOError.new("gone")
    end

    it "never enters the block" do
      heard =
        warnings do
          expect { acquire(wait: 0) { raise "entered" } }.to raise_error(Parse::Lock::TimeoutError)
        end
      expect(heard.first).to eq("[Parse::LockBackend] acquire error (IOError): gone\n")
    end

    it "is warned of at each attempt" do
      heard =
        warnings do
          expect { acquire(wait: 0.2) { :never } }.to raise_error(Parse::Lock::TimeoutError)
        end
      expect(heard.grep(/acquire error/).size).to be(
        native.asked.count { |question| question.first == :acquire }
      )
    end

    it "serves again when it can" do
      heard = warnings do
        waiter = background { acquire(wait: 20) { :mine } }
        await_sleep(waiter)
        native.trouble = nil
        expect(waiter.value).to be(:mine)
      end
      expect(heard).to all(match(/acquire error/))
    end

    it "on release does not keep the block's value back" do
      native.trouble = nil
      heard =
        warnings do
          expect(acquire { (native.trouble = IOError.new("gone")) && :value }).to be(:value)
        end
      expect(heard).to eq(["[Parse::LockBackend] release error (IOError): gone\n"])
    end

    it "is not locked out by a question that it heard and could not answer" do
      native.trouble = nil
      answers = 0
      native.define_singleton_method(:lock_acquire) do |key, owner, ttl|
        taken = super(key, owner, ttl)
        (answers += 1) == 1 ? raise(IOError, "the answer is lost") : taken
      end
      warnings { expect(acquire(wait: 20) { :mine }).to be(:mine) }
      expect(native.owners).to be_empty
    end

    it "is left nothing by a call that gives up after a lost answer" do
      native.trouble = nil
      native.define_singleton_method(:lock_acquire) do |key, owner, ttl|
        super(key, owner, ttl)
        raise IOError, "the answer is lost"
      end
      warnings { expect { acquire(wait: 0) { :never } }.to raise_error(Parse::Lock::TimeoutError) }
      expect(native.owners).to be_empty
    end
  end

  describe "an interrupt" do
    it "while the store answers leaves no lock behind" do
      asked = Queue.new
      native.define_singleton_method(:lock_acquire) do |key, owner, ttl|
        super(key, owner, ttl) && asked.push(:asked) && sleep
      end
      Parse.synchronize_create_store = native
      thread = background { acquire { :never } }
      asked.pop
      thread.kill.join
      expect(native.owners).to be_empty
    end

    it "between two questions asks no more" do
      native.owners[store_key] = "another"
      Parse.synchronize_create_store = native
      thread = background { acquire(wait: 20) { :never } }
      await_sleep(thread)
      thread.kill.join
      expect(native.asked.map(&:first)).to all(be(:acquire))
      expect(native.owners).to eq(store_key => "another")
    end
  end
end
