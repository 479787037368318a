# frozen_string_literal: true

# A store that notices when two processes hash the keys of one namespace with different secrets.
# The group that includes these examples defines `store`, `key` and `opener`. The lambda `opener`
# opens another store in the same place, with the given options.
RSpec.shared_examples "a store that compares secrets" do
  let(:namespace) { "ns#{SecureRandom.hex(8)}" }

  first, second = %w[first second].map { |word| word.ljust(16, "-") }

  def opened(secret, namespace = self.namespace) = opener.call(secret: secret, namespace: namespace)

  # The block's value, or the error if the store refuses the call.
  def outcome
    yield
  rescue Plock::ConfigurationError => e
    [e.class, e.code, e.message]
  end

  def be_refused = match([Plock::ConfigurationError, :other_secret, String])

  {
    "acquire" => ->(store, key) { store.acquire(key, wait: 0) { :ran } },
    "acquire without a block" => ->(store, key) { store.acquire(key, wait: 0) },
    "try_acquire" => ->(store, key) { store.try_acquire(key) { :ran } },
    "acquire_all" => ->(store, key) { store.acquire_all([key, "#{key}:2"], wait: 0) { :ran } },
    "try_acquire_all" => ->(store, key) { store.try_acquire_all([key, "#{key}:2"]) { :ran } },
    "a monitor" => ->(store, key) { Plock::Monitor.new(key, store: store).synchronize { :ran } },
    "status" => ->(store, key) { store.status(key) },
    "break" => ->(store, key) { store.break(key) }
  }.each do |what, call|
    it "refuses #{what} beside another secret, says so, and leaves nothing behind" do
      opened(first).acquire(key) { nil }
      other = opened(second)
      told = outcome { call.call(other, key) }
      expect(told).to be_refused
      expect(told.last).to include(namespace, "plock doctor", "plock secret --replace").and match(
        /host \S+ pid #{Process.pid}\)/
      )
      expect(told.last).not_to include(first, second)
      store_key = other.config.store_key(key)
      expect_nobody_at(store_key)
    end
  end

  # Looks up the store key directly, so that the store's secret does not matter.
  def expect_nobody_at(store_key)
    place = Plock::Status.new(nil, store_key, nil)
    eventually(2.0, "a lease is left behind") { !store.status(place).held? }
  end

  it "refuses a process without a secret beside one with, and the other way round" do
    opened(first).acquire(key) { nil }
    expect(outcome { opened(nil).acquire(key) { :ran } }.last).to match(
      /this process lacks the secret: set PLOCK_SECRET/
    )
    bare = "#{namespace}b"
    opened(nil, bare).acquire(key) { nil }
    expect(outcome { opened(first, bare).acquire(key) { :ran } }.last).to match(
      /no secret, noted .* without the secret, .* came first/
    )
  end

  it "lets those with the same secret work, and other namespaces with other secrets" do
    other = "#{namespace}b"
    expect([opened(first), opened(first)].map { |store| store.acquire(key) { :ran } }).to eq(
      %i[ran ran]
    )
    expect(opened(second, other).acquire(key) { :ran }).to be(:ran)
    expect(opened(first).status(key)).not_to be_held
  end

  it "asks once, and not again in a forked child" do
    mine = opened(first)
    mine.acquire(key) { nil }
    allow(mine).to receive(:keep_note).and_raise("asked again")
    expect(mine.acquire(key) { mine.status(key).held? }).to be(true)
    expect(in_child { mine.acquire(key) { :ran } }).to be(:ran)
  end

  it "replaces the secret on purpose only, and not while a key is held" do
    old = opened(first)
    lease = kept(old.acquire(key))
    fresh = opened(second)
    if store.can?(:list)
      expect(outcome { fresh.replace_secret }).to match(
        [Plock::ConfigurationError, :held, /in use .* stop all processes/]
      )
      expect(outcome { fresh.acquire(key) { :ran } }).to be_refused
      lease.release
      expect(fresh.replace_secret).to be(true)
    else
      expect { fresh.replace_secret }.to raise_error(
        Plock::UnsupportedError, /cannot list.*by force/
      )
      expect(fresh.replace_secret(force: true)).to be(true)
      lease.release
    end
    expect(opened(second).replace_secret(force: true)).to be(false)
    expect(opened(second).acquire(key) { :ran }).to be(:ran)
    expect(outcome { opened(first).acquire(key) { :ran } }).to be_refused
  end

  it "shows the secret of neither, and the note in no list" do
    mine = opened(first)
    lease = kept(mine.acquire(key))
    expect(mine.inspect + mine.kept_fingerprint.to_s).not_to include(first)
    expect(mine.each_lock.map(&:fence)).to eq([lease.fence]) if store.can?(:list)
  end
end
