# frozen_string_literal: true

# Semaphores with more callers than permits.
module Bench
  PERMITS = 3
  # seconds for which a caller keeps its permit; without this pause, callers would rarely need more
  # than one permit at the same time
  INSIDE = 0.0005
end

Bench.contestant "permits-plock", label: "plock, semaphore of 3", role: :plock, family: :permits
Bench.contender "permits-plock" do |server|
  require "plock"

  store = Plock::Store.open(server.url(:tcp), secret: Bench::SECRET)
  -> do
    ->(key, section) do
      store
        .semaphore(key, permits: Bench::PERMITS)
        .acquire(ttl: Bench::TTL, wait: Bench::WAIT) { section.call.tap { sleep Bench::INSIDE } }
    end
  end
end

Bench.contestant "permits-redis-semaphore",
                 label: "redis-semaphore of 3",
                 role: :peer,
                 family: :permits,
                 gems: %w[redis-semaphore redis redis-client]
Bench.contender "permits-redis-semaphore" do |server|
  -> do
    lock = Bench::SemaphoreLock.connect(server, resources: Bench::PERMITS)
    ->(key, section) { lock.acquire(key) { section.call.tap { sleep Bench::INSIDE } } }
  end
end
