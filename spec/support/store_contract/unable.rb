# frozen_string_literal: true

# A store refuses each call that needs an ability which the store lacks. Some abilities have no
# entry in `requests`, because no call asks for them. The store only reports that it lacks them.
RSpec.shared_examples "a store that cannot do everything" do |unable|
  requests = {
    semaphores: ->(store, key) do
      store.semaphore(key, permits: 2).acquire(wait: 0) { raise "entered" }
    end,
    read_write_locks: ->(store, key) do
      store.read_write_lock(key).read(wait: 0) { raise "entered" }
    end,
    downgrade: ->(store, key) { store.read_write_lock(key).write(wait: 0, &:downgrade) },
    hand_over: ->(store, key) { store.acquire(key, &:dump) },
    list: ->(store, _key) { store.each_lock { nil } },
    compares_secrets: ->(store, _key) { store.replace_secret(force: true) },
    background_release: ->(store, key) do
      store.acquire(key, wait: 0, release: :background) { raise "entered" }
    end,
    replicas: ->(store, key) { store.acquire(key, wait: 0, replicas: 1) { raise "entered" } }
  }
  options = { background_release: { release: :background }, replicas: { replicas: 1 } }

  it "says what it can do, and what it cannot" do
    can, cannot = Plock::Locking::ABILITIES.partition { |ability| store.can?(ability) }
    expect(cannot).to match_array(unable)
    expect(can).to match_array(Plock::Locking::ABILITIES - unable)
    expect { store.can?(:fly) }.to raise_error(ArgumentError, /fly/)
  end

  (requests.keys & unable).each do |ability|
    it "refuses what needs #{ability}, and leaves nothing behind" do
      expect { requests.fetch(ability).call(store, key) }.to raise_error(Plock::UnsupportedError)
      expect_free
    end
  end

  (options.keys & unable).each do |ability|
    it "refuses to enter a monitor that needs #{ability}" do
      monitor = Plock::Monitor.new(key, store: store, wait: 0, **options.fetch(ability))
      %i[synchronize enter try_enter].each do |way|
        expect { monitor.public_send(way) { raise "entered" } }.to raise_error(
          Plock::UnsupportedError
        )
      end
      expect_free
    end
  end
end
