# frozen_string_literal: true

# If a call has a block and no `ttl:`, its lease is renewed for as long as the block runs.
RSpec.shared_examples "a store that renews by itself" do |unable = []|
  news = Support::StoreContract::LATE_NEWS

  # A short ttl makes renewals frequent. It comes from the configuration, so it does not count as a
  # `ttl:` of the call.
  before do
    store.config = store.config.class.new(ttl: renewed)
  end

  # Is the lease renewed more than once? Waits until its end is half a ttl later than at first. One
  # renewal moves the end by only a third of the ttl.
  def outlives?(lease)
    first = lease.valid_until
    eventually(8 * renewed) { lease.lost? || lease.valid_until > first + (renewed / 2) }
    lease.valid?
  end

  # Does the lease expire although its block still runs? The warning about that is expected.
  def runs_out?
    over = nil
    warnings { yield ->(lease) { over = eventually(8 * renewed) { lease.lost? } } }
    over
  end

  describe "a block without ttl:" do
    it "has the lease of acquire renewed as long as it runs" do
      expect(store.acquire(key) { |lease| outlives?(lease) }).to be(true)
    end

    it "has the lease of try_acquire renewed" do
      expect(store.try_acquire(key) { |lease| outlives?(lease) }).to be(true)
    end

    it "has the leases of acquire_all and try_acquire_all renewed" do
      keys = [key, "#{key}:2"]
      expect(store.acquire_all(keys) { |first, _| outlives?(first) }).to be(true)
      expect(store.try_acquire_all(keys) { |leases| outlives?(leases.last) }).to be(true)
    end

    it "has its lease renewed where it was waited for" do
      lease = hold(ttl: Support::StoreContract::LONG)
      waiter =
        wait_in_line(1) do
          store.acquire(key, wait: Support::StoreContract::LONG) { |own| outlives?(own) }
        end
      lease.release
      expect(waiter.value).to be(true)
    end

    it "has its lease renewed with at_least:, which keeps the key no longer" do
      expect(store.acquire(key, at_least: 0.01) { |lease| outlives?(lease) }).to be(true)
      expect_free
    end

    unless unable.include?(:semaphores)
      it "has the lease of a semaphore renewed" do
        expect(store.semaphore(key, permits: 2).acquire { |lease| outlives?(lease) }).to be(true)
      end
    end

    unless unable.include?(:read_write_locks)
      it "has the leases of a read-write lock renewed" do
        lock = store.read_write_lock(key)
        expect(
          [lock.read { |lease| outlives?(lease) }, lock.write { |lease| outlives?(lease) }]
        ).to eq([true, true])
      end
    end

    unless unable.include?(:hand_over)
      it "has an adopted lease renewed" do
        expect(store.adopt(store.acquire(key).dump) { |lease| outlives?(lease) }).to be(true)
      end
    end

    it "has nothing renewed with renew: false" do
      expect(runs_out? { |inside| store.acquire(key, renew: false, &inside) }).to be_truthy
    end

    it "has its lease renewed until max_hold: is over" do
      expect(
        runs_out? do |inside|
          store.acquire(key, max_hold: 1.5 * renewed) { |lease| inside.call(lease) && lease }
        end
      ).to be_truthy
    end

    it "learns of a break by itself" do
      heard = warnings do
        store.acquire(key) do |lease|
          outlives?(lease)
          store.break(key)
          eventually(news + (store.can?(:busy_renewal) ? 0 : renewed)) { lease.lost? }
        end
      end
      expect(heard).to match([/"#{key}" .* is lost before its block ended/])
    end

    it "releases a key that was renewed" do
      store.acquire(key) { |lease| outlives?(lease) }
      expect_free
    end

    it "tells of renewals where there were any, and of none where there was no time for one" do
      # This block comes first, because the report of the next block's last renewal may arrive after
      # that block has ended.
      expect(events_of(:renew) { store.acquire(key) { nil } }).to be_empty
      told = events_of(:renew) do |heard|
        store.acquire(key) { |lease| outlives?(lease) }
        eventually { heard.size.positive? }
      end
      expect(told.map(&:name).uniq).to eq(%i[renew])
    end
  end

  describe "a block with ttl:" do
    it "is not renewed" do
      expect(runs_out? { |inside| store.acquire(key, ttl: short, &inside) }).to be_truthy
    end

    it "is renewed with renew: true" do
      expect(store.acquire(key, ttl: renewed, renew: true) { |lease| outlives?(lease) }).to be(true)
    end
  end

  it "renews no lease that is returned" do
    lease = hold
    expect(eventually(8 * renewed) { lease.lost? }).to be_truthy
  end

  it "does not take nil for a ttl: that is left out" do
    expect { store.acquire(key, ttl: nil) { nil } }.to raise_error(ArgumentError, /ttl:/)
  end
end
