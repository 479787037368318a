# frozen_string_literal: true

require_relative "failures"

module Support
  # Ways in which a call can wait. Each lambda prepares an example that includes "with a gate",
  # before the call. It returns another lambda, which blocks until the call has begun to wait.
  WAYS_TO_WAIT = {
    "for a lock that another caller holds" => ->(example) do
      example.shared_redis.call("SET", example.key, "somebody", "PX", 60_000)
      -> { example.gate.await(:request, example.key) }
    end,
    "for a reply that does not come" => ->(example) do
      example.gate.hold(:reply)
      -> { example.gate.await(:reply) }
    end,
    "for a connection that says nothing" => ->(example) do
      example.gate.disconnect
      example.gate.silent
      -> { example.gate.await(:request) }
    end
  }.freeze
end

# A store behind a proxy, the gate. The store's timeouts are so long that no call ends before the
# example ends it.
RSpec.shared_context "with a gate" do
  include Support::Failures

  let(:rescue_me) { Class.new(StandardError) }
  let(:gate) { proxy }
  let(:store) do
    warm(
      open_store(
        gate.url, attempt_timeout: 20, command_timeout: 20, release_timeout: release_timeout
      )
    )
  end
  let(:release_timeout) { 0.5 }
  let(:key) { unique_key }

  # Returns a thread that is waiting in `hold`, in the given way.
  def waiting(way)
    store
    gate.forget
    begun = way.call(self)
    thread = background do
      store.hold(key, Support::Failures::TTL_MS, 30, ->(*) {}) { raise "the block was entered" }
    end
    begun.call
    await_sleep(thread)
  end

  # Ends the disturbance, and frees the lock.
  def calm
    gate.clear
    gate.forward
    gate.disconnect # in silent mode, the gate accepted connections that lead to no server
    shared_redis
      .call("GET", key)
      .then { |owner| shared_redis.call("DEL", key) if owner == "somebody" }
  end

  # Returns a thread that stays in the block of `hold`.
  def in_block
    inside = Queue.new
    thread = background do
      store.hold(key, Support::Failures::TTL_MS, 1.0, nil) do
        inside << true
        sleep
      end
    end
    inside.pop
    await_sleep(thread)
  end

  # Returns a thread that is waiting during its release. With :request, its request does not reach
  # the server. With :reply, the request reaches the server, but the answer does not come back.
  def releasing(direction, **options)
    store
    leaving = Queue.new
    thread = background do
      store.hold(key, Support::Failures::TTL_MS, 1.0, ->(*) {}) do
        gate.forget
        gate.hold(direction, **options)
        leaving << true
        :value
      end
    end
    leaving.pop
    gate.await(:request, "EVALSHA")
    gate.await(:reply) if direction == :reply
    await_sleep(thread)
  end

  # Waits until the thread has ended, even if it ended with an exception.
  def end_of(thread)
    thread.join(5)
  rescue rescue_me
    thread
  end
end
