# frozen_string_literal: true

RSpec.shared_examples "a store that tells who has what" do |unable = []|
  long = Support::StoreContract::LONG

  # Three kinds of store have no connection pool of plock's own: local stores, stores in memory,
  # and stores on Mongo's documents.
  it "tells of the connections that it has, if it has any" do
    store.acquire(key) do
      status = store.pool_status
      next expect(status).to be_nil if status.nil?

      expect(status).to have_attributes(size: be_positive, waiting: 0)
      expect(status.used + status.idle).to be_positive
    end
  end

  describe "#status" do
    it "says that a key is free" do
      expect(store.status(key)).to have_attributes(
        held?: false, key: key, host: nil, pid: nil, thread: nil, label: nil, since: nil,
        remaining: nil, fence: nil, waiters: []
      )
    end

    it "says who holds it" do
      store.acquire(key, ttl: 60, label: "Größe\n7") do |lease|
        expect(store.status(key)).to have_attributes(
          held?: true, host: Etc.uname[:nodename], pid: Process.pid,
          thread: an_instance_of(Integer), label: "Größe\n7", since: be_within(10).of(Time.now),
          remaining: be_between(50, 60), fence: lease.fence, waiters: []
        )
      end
    end

    it "takes a label of up to 100 bytes of any kind" do
      ["%20 -", " " * 100, "\u0000\n\t\u007F", "-", "é" * 50].each do |label|
        store.acquire(key, label: label) { expect(store.status(key).label).to eq(label) }
      end
    end

    it "tells of a lease without a label that it has none" do
      store.acquire(key) { expect(store.status(key).label).to be_nil }
    end

    it "says who waits, in order, with the same facts" do
      lease = hold(ttl: long)
      threads = %w[first second].each_with_index.map do |label, number|
        thread = background { store.acquire(key, wait: long, label: label) { nil } }
        await_waiters(number + 1)
        thread
      end
      waiters = store.status(key).waiters
      expect(waiters.map(&:label)).to eq(%w[first second])
      expect(waiters).to all(
        have_attributes(
          host: Etc.uname[:nodename], pid: Process.pid, since: be_within(10).of(Time.now)
        )
      )
      expect(waiters.map(&:thread)).to all(be_an(Integer)).and satisfy { |numbers|
        numbers.uniq == numbers
      }
      lease.release
      threads.each(&:join)
      expect(store.status(key).waiters).to be_empty
    end

    it "counts others only after a failed wait, in the error and right after it" do
      lease = hold(ttl: long)
      told = Array.new(5) do
        store.acquire(key, wait: 0.01)
      rescue Plock::TimeoutError => e
        [e.status.waiters.size, store.status(key).waiters.size]
      end
      expect(told).to all(eq([0, 0]))
      lease.release
    end

    it "does not know of waiters who are gone" do
      lease = hold(ttl: long)
      line_up(1) { nil }.first.kill.join
      await_waiters(0)
      lease.release
    end

    it "has no secrets, and is readable" do
      store.acquire(key) do |lease|
        expect(store.status(key).inspect).to match(/"#{key}" held since .* by host .*, 0 waiting/)
        expect(store.status(key).inspect).not_to include(lease.token)
      end
      expect(store.status(key).to_s).to match(/\Afree#{Support::StoreContract::AT_NODE}\z/)
    end
  end

  next if unable.include?(:list)

  describe "#each_lock" do
    def held = store.each_lock.map(&:store_key)

    it "names each key that is held, once" do
      leases =
        Array.new(20) { |number| store.acquire("#{key}:#{number}", ttl: long, label: number.to_s) }
      found =
        store.each_lock.select do |status|
          leases.any? { |lease| lease.store_key == status.store_key }
        end
      expect(found.map(&:label)).to match_array([*0...20].map(&:to_s))
      expect(found).to all(have_attributes(held?: true, key: nil, pid: Process.pid))
      leases.each(&:release)
      expect(held & leases.map(&:store_key)).to be_empty
    end

    it "lists the same keys in steps, each of them from where the one before ended" do
      leases = Array.new(150) do |number| # so many that each_lock needs several steps
        store.acquire("#{key}:#{number}", ttl: long)
      end
      keys, cursor = store.list_keys
      until cursor.nil?
        more, cursor = store.list_keys(cursor)
        keys.concat(more)
      end
      expect(keys).to include(*leases.map(&:store_key))
      leases.each(&:release)
    end

    it "returns an Enumerator without a block, and nil with one" do
      expect(store.each_lock).to be_an(Enumerator)
      expect(store.each_lock { nil }).to be_nil
    end
  end
end
