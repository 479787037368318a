# frozen_string_literal: true

# Locks that several holders share, several keys at once, and other calls of the same API. The plain
# lock is the reference.
module Bench
  # name => the label, and a callable that receives the store. It returns another callable, which
  # acquires and releases once.
  KINDS_OF_PAIRS = {
    "plain" => ["one key", ->(store) { -> { store.acquire("bench:kinds") { :held } } }],
    "try" => ["try_acquire", ->(store) { -> { store.try_acquire("bench:kinds") { :held } } }],
    "monitor" => [
      "a monitor",
      ->(store) do
        Plock::Monitor.new("bench:monitor", store: store).then { |monitor|
          -> { monitor.synchronize { :held } }
        }
      end
    ],
    "read" => [
      "read",
      ->(store) { store.read_write_lock("bench:kinds").then { |lock| -> { lock.read { :held } } } }
    ],
    "write" => [
      "write",
      ->(store) { store.read_write_lock("bench:kinds").then { |lock| -> { lock.write { :held } } } }
    ],
    "semaphore" => [
      "semaphore of 3",
      ->(store) do
        store.semaphore("bench:kinds", permits: 3).then { |lock| -> { lock.acquire { :held } } }
      end
    ],
    "all-3" => [
      "all of 3 keys", ->(store) { -> { store.acquire_all(%w[bench:a bench:b bench:c]) { :held } } }
    ],
    "all-10" => [
      "all of 10 keys",
      ->(store) do
        Array.new(10) { |i| "bench:#{i}" }.then { |keys| -> { store.acquire_all(keys) { :held } } }
      end
    ]
  }.freeze
end

Bench::KINDS_OF_PAIRS.each do |name, (label, pair)|
  role = name == "plain" ? :floor : :plock
  Bench.contestant "kinds-#{name}", label: "plock, #{label}", role: role, family: :kinds do |server|
    require "plock"

    pair.call(Plock::Store.open(server.url(:tcp), secret: Bench::SECRET))
  end
end

Bench.contestant "kinds-redis-semaphore",
                 label: "redis-semaphore of 3",
                 role: :peer,
                 family: :kinds,
                 gems: %w[redis-semaphore redis redis-client] do |server|
  lock = Bench::SemaphoreLock.connect(server, resources: 3)
  -> { lock.acquire("bench:kinds:redis-semaphore") { :held } }
end
