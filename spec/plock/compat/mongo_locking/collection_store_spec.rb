# frozen_string_literal: true

require "spec_helper"
require "support/store_contract"
require "tmpdir"
require_relative "models"
require_relative "older_lock"
require_relative "stand_in"

# A stand-in for a collection keeps its documents in a file, so that processes share them.
RSpec.describe Mongo::Locking::CollectionStore do
  let(:folder) do
    Dir.mktmpdir("plock-mongo").tap { |path| discard(-> { FileUtils.rm_rf(path) }, :call) }
  end
  let(:server) { StandIn::Server.new("#{folder}/documents") }
  let(:collection) { StandIn::Collection.new(server) }
  let(:older_collection) { StandIn::OldCollection.new(server) }
  let(:store) { Mongo::Locking::CollectionStore.new(collection) }
  let(:older) { OlderMongoLock.new(older_collection, "Order", "1") }
  let(:key) { Mongo::Locking::Name.new("Order", "1").store_key }

  def document = server.all.first

  describe "seen as any store" do
    let(:server) { StandIn::Server.new }
    # interrupts only every second step, because the specs of memcached run the same Ruby code
    let(:share_of_steps) { [1, 2] }
    let(:name_in_store) { /\A#{key}\0:\h{64}\z/ } # the documents have the plain key

    it_behaves_like "a store", described_class::UNABLE
  end

  {
    "today's driver" => :collection,
    "the driver of the gem's time" => :older_collection
  }.each do |generation, given|
    describe "with #{generation}" do
      let(:store) { Mongo::Locking::CollectionStore.new(public_send(given)) }

      it "writes the gem's fields, and the owner" do
        lease = store.acquire(key, ttl: 600)
        expect(document).to match(
          hash_including(
            "scope" => "Order", "key" => "1", "refcount" => 1, "owner" => lease.token,
            "fence" => lease.fence, "expire_at" => be_within(5).of(Time.now + 600),
            "since" => be_within(5).of(Time.now)
          )
        )
        expect(document["expire_at"]).to be_utc
        lease.release
        expect(server.all).to be_empty
      end

      it "needs one request to acquire, and one to release" do
        store.acquire(key) { nil }
        before = server.requests
        store.acquire(key) { nil }
        expect(server.requests - before).to be 2
      end

      it "makes the indexes before the first lock if it is told to" do
        Mongo::Locking.configure(collection: public_send(given))
        expect(Mongo::Locking.ensure_indices).to be_nil
        expect(server.requests).to be 3
        Mongo::Locking.store.acquire(key) { expect(server.requests).to be 4 }
      ensure
        Mongo::Locking.configure(store: nil)
      end

      it "makes a unique index, so that there cannot be two documents" do
        store.acquire(key) do
          expect {
            older_collection.find_and_modify(
              new: true,
              upsert: true,
              query: {
                "scope" => "Order", "key" => "1", "refcount" => 7, "$atomic" => 1
              },
              update: {
                "$set" => {
                  "refcount" => 1
                }
              }
            )
          }.to raise_error(/E11000/)
        end
      end

      it "serves all who want it, one at a time" do
        inside = 0
        most = Queue.new
        threads = Array.new(4) do
          background do
            10.times do
              store.acquire(key, wait: 20) do
                most << (inside += 1)
                inside -= 1
              end
            end
          end
        end
        threads.each(&:join)
        expect(Array.new(most.size) { most.pop }).to all(be(1))
        expect(server.all).to be_empty
      end
    end
  end

  it "refuses what is no collection" do
    expect { Mongo::Locking::CollectionStore.new({}) }.to raise_error(
      Mongo::Locking::InvalidConfig, "not a collection: Hash"
    )
  end

  describe "beside processes of the gem" do
    it "is excluded by them, and has the lock when they leave" do
      older # makes the folder for both processes
      holder = child do |parent|
        parent.tell(older.acquire)
        parent.hear
        older.release
      end
      expect(holder.hear).to be true
      expect(store.try_acquire(key)).to be_nil
      expect(store.each_lock.map(&:host)).to eq [nil]
      waiter = await_sleep(background { store.acquire(key, wait: 20) { :mine } })
      holder.tell(:leave)
      expect(waiter.value).to be :mine
      expect(holder.result).to be 0
      expect(server.all).to be_empty
    end

    it "excludes them, and they have the lock when we leave" do
      waiter = store.acquire(key) do
        expect(older.acquire(tries: 3)).to be false
        expect(document["refcount"]).to be 1
        await_sleep(background { older.acquire(tries: 500) && older.release })
      end
      expect(waiter.value).to be 0
      expect(server.all).to be_empty
    end

    it "loses nothing where both contend" do
      counter = "#{folder}/counter"
      File.write(counter, "0")
      add = -> { File.write(counter, Integer(File.read(counter)) + 1) }
      server.index(%w[scope key], true)
      olders = Array.new(2) do
        child { |_| 15.times { older.acquire(tries: 5_000) && add.call && older.release } }
      end
      ours = Array.new(2) { child { |_| 15.times { store.acquire(key, wait: 20) { add.call } } } }
      [*olders, *ours].each(&:result)
      expect(File.read(counter)).to eq "60"
      expect(server.all).to be_empty
    end

    it "takes over from one that died, when its time is over" do
      older.acquire(lifetime: 0.1)
      started = monotonic
      expect(store.acquire(key, wait: 5) { document["refcount"] }).to be 1
      expect(monotonic - started).to be >= 0.3
      expect(server.all).to be_empty
    end

    it "takes down what several have left behind that died" do
      older.acquire(lifetime: 0.1)
      2.times { older.__send__(:count, 1) }
      expect(store.acquire(key, wait: 5) { document["refcount"] }).to be 1
    end

    # When the original gem takes over an expired lock, it first changes the count, and then writes
    # the new time. Between the two steps, the lock still looks expired.
    it "does not take over what one of them has just taken over" do
      older.acquire(lifetime: -1)
      expect(store.try_acquire(key)).to be_nil
      started = monotonic
      eventually { monotonic - started > 0.25 }
      older.__send__(
        :modify,
        { "scope" => "Order", "key" => "1" },
        "$set" => {
          "expire_at" => Time.now.utc - 0.5
        }
      )
      expect(store.try_acquire(key)).to be_nil
    end

    it "and one of them do not both take over, whenever they look" do
      older.acquire(lifetime: 0)
      eventually { document["expire_at"] < Time.now }
      expect(store.try_acquire(key)).to be_nil # the store has seen the document
      started = monotonic
      eventually { monotonic - started > 0.25 }
      ours = nil
      older.between = -> { ours = store.try_acquire(key) }
      expect([older.acquire, ours ||= store.try_acquire(key)].count(&:itself)).to be 1
      ours&.release
    end

    describe "when one of them has taken over our lock" do
      let(:late) { discard(store.acquire(key, ttl: 0.5), :release) }

      before do
        late
        eventually { document["expire_at"] < Time.now }
        expect(older.acquire).to be true
      end

      it "does not release that" do
        expect(late.release).to be false
        expect(document).to match(
          hash_including("refcount" => 1, "expire_at" => be_within(5).of(Time.now + 600))
        )
      end

      it "does not renew it, and learns of it" do
        expect { late.extend(ttl: 30) }.to raise_error(Plock::LeaseLost)
        expect(document["expire_at"]).to be_within(5).of(Time.now + 600)
      end

      it "does not tell that it is ours" do
        expect(store.each_lock.map { |status| [status.pid, status.fence, status.since] }).to eq [
          [nil, nil, nil]
        ]
      end

      it "breaks theirs" do
        expect(store.break(key)).to be true
        expect(store.status(key)).not_to be_held
      end
    end

    # A process whose clock is ahead may take over a lock that has not yet expired by this process's
    # clock.
    it "does not renew what one of them has taken over too early" do
      lease = store.acquire(key, ttl: 30)
      server.change(
        { "scope" => "Order", "key" => "1" }, { "$set" => { "expire_at" => Time.now + 600 } }, false
      )
      expect { lease.extend(ttl: 30) }.to raise_error(Plock::LeaseLost)
      expect(lease.release).to be false
      expect(document).to match(
        hash_including("refcount" => 1, "expire_at" => be_within(5).of(Time.now + 600))
      )
    end

    it "does not adopt what one of them has taken over" do
      dump = store.acquire(key, ttl: 30).dump
      server.change(
        { "scope" => "Order", "key" => "1" }, { "$set" => { "expire_at" => Time.now + 600 } }, false
      )
      expect { store.adopt(dump) }.to raise_error(Plock::LeaseLost)
    end

    it "leaves to them what they have counted up meanwhile" do
      lease = store.acquire(key)
      older.__send__(:count, 1)
      expect(lease.release).to be true
      expect(document).to match(hash_including("refcount" => 1))
      expect(document).not_to include("owner")
      older.__send__(:count, -1)
      expect(store.acquire(key, wait: 0) { :mine }).to be :mine
    end

    it "never counts down another owner's lock if it comes too late" do
      late = store.acquire(key, ttl: 0.5)
      next_one = store.acquire(key, ttl: 30, wait: 5)
      expect(late.release).to be false
      expect(next_one).to be_valid
      expect(next_one.release).to be true
    end

    it "lists theirs, and breaks it, whatever the count" do
      Mongo::Locking.configure(collection: -> { collection })
      older.acquire
      older.__send__(:count, 1)
      expect(Mongo::Locking.locks).to match [
        have_attributes(scope: "Order", key: "1", age: nil, remaining: be_between(590, 600))
      ]
      expect(Mongo::Locking.break("Order", "1")).to be true
      expect(Mongo::Locking.locks).to be_empty
      expect(store.acquire(key, wait: 5) { :mine }).to be :mine
    ensure
      Mongo::Locking.configure(collection: nil)
    end
  end

  it "does not break the lock of one who has come since it was looked for" do
    lease = store.acquire(key, ttl: 30)
    next_one = nil
    allow(collection).to receive(:find).and_wrap_original do |original, filter|
      original.call(filter).tap do
        next_one ||=
          server.remove(filter) &&
          server.change(
            filter,
            { "$set" => { "refcount" => 1, "owner" => "next", "expire_at" => Time.now + 60 } },
            true
          )
      end
    end
    expect(store.break(key)).to be false
    expect(lease.release).to be false
    expect(document).to match(hash_including("owner" => "next", "refcount" => 1))
  end

  it "breaks a lock that is renewed while it looks" do
    lease = discard(store.acquire(key, ttl: 30), :release)
    renewals = 2
    allow(collection).to receive(:find).and_wrap_original do |original, filter|
      original
        .call(filter)
        .tap { lease.extend(ttl: 30 + renewals) unless (renewals -= 1).negative? }
    end
    expect(store.break(key)).to be true
    expect(server.all).to be_empty
  end

  it "does not lock in a collection that has two documents of one lock" do
    2.times do
      server.change(
        { "scope" => "Order", "key" => "1", "refcount" => 7 }, { "$set" => { "refcount" => 0 } },
        true
      )
    end
    expect { store.try_acquire("another") { raise "entered" } }.to raise_error(
      Plock::UnavailableError, /E11000/
    )
  end

  describe "when the server fails" do
    # Loses the answer to the next change.
    def lose_an_answer
      store.acquire("another") { nil }
      lost = true
      replace(collection, :find_one_and_update) do |original, *arguments, **options|
        original
          .call(*arguments, **options)
          .tap { raise StandIn::Mongo::OperationFailure, "no answer" if lost.tap { lost = false } }
      end
    end

    it "keeps what it has got when it asked once more" do
      lose_an_answer
      lease = store.acquire(key, ttl: 30, wait: 5)
      started = monotonic
      eventually { monotonic - started > 1.2 }
      expect(document).to match(hash_including("refcount" => 1))
      expect(lease.release).to be true
    end

    it "gives up on a silent server when the wait is over, even while it takes back a lease",
       :timing do
      store = Mongo::Locking::CollectionStore.new(collection, attempt_timeout: 0.1)
      store.acquire(key) { nil }
      %i[find find_one_and_update find_one_and_delete].each do |name|
        replace(collection, name) { sleep }
      end
      within_budget(0.3, least: 0.1) do
        expect { store.try_acquire(key) }.to raise_error(
          Plock::UnavailableError, /has not answered within 0.1 s/
        )
      end
      expect { Mongo::Locking::CollectionStore.new(collection, attempt_timeout: 0) }.to raise_error(
        Plock::ConfigurationError, /attempt_timeout/
      )
    end

    it "does not take an interrupt for a failure of it" do
      store.acquire(key) { nil }
      asked = Queue.new
      replace(collection, :find_one_and_update) { asked << true && sleep }
      waiter = background { store.try_acquire(key) }
      asked.pop
      waiter.raise(IOError, "out")
      expect { waiter.join(5) }.to raise_error(IOError, "out")
    end

    it "has a lock back a moment later that could not be released" do
      lease = store.acquire(key, ttl: 30)
      down = true
      server.failing { down }
      expect { lease.release }.to raise_error(Plock::UnavailableError)
      down = false
      expect(store.acquire(key, wait: 5) { :mine }).to be :mine
    end

    it "says how, and goes on when it is back" do
      store
      down = true
      server.failing { down }
      expect { store.try_acquire(key) }.to raise_error(
        Plock::UnavailableError, "Mongo::Error::OperationFailure: no server"
      )
      down = false
      expect(store.try_acquire(key) { :in }).to be :in
    end

    it "leaves no document behind where the answer to an acquire is lost" do
      lose_an_answer
      expect { store.try_acquire(key) }.to raise_error(Plock::UnavailableError)
      expect(store.acquire(key, wait: 5) { :mine }).to be :mine
    end

    it "raises what is not the server's as it is" do
      allow(collection).to receive(:find_one_and_update).and_raise(NoMethodError, "a mistake")
      expect { store.try_acquire(key) }.to raise_error(NoMethodError, "a mistake")
    end
  end
end
