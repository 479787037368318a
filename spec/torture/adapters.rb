# frozen_string_literal: true

require "plock"
require "redis-client"
require_relative "ways"

module Torture
  # The failures with which a call may end even if plock breaks no promise.
  class Refused < StandardError; end # another call held the lock until `wait:` was over
  class Failed < StandardError; end  # the store did not answer
  class Lost < Failed; end           # the lease is lost

  # How a worker reaches the server: the URL, the settings for redis-client, and the options for
  # Plock::Store.
  Address = Struct.new(:url, :settings, :options)

  # Receives plock's warnings, and passes them on to the lane whose call they concern.
  class Ear
    def warn(text)
      lane = Thread.current[:torture_lane]
      case text
      when /could not be released/ then lane&.unreleased
      when /lease on "(\d+)".* before its block ended/ then lane&.lost(Regexp.last_match(1).to_i)
      when /before its block ended/ then lane&.lost
      end
      $stderr.puts(text)
    end
  end

  # The lock that is tested: plock on Redis, with the methods that workers call. `enter` yields an
  # Array of leases, each with key, fence, valid_until (nanoseconds of Clock) and valid?. The leases
  # of plock also have the other methods of Lease.
  class Product
    def self.ways = WAYS

    # The lock's main key on the server.
    def self.place(key) = "#{Plock.store_key(prefix, key.to_s)}#{SUFFIXES[key]}"

    def self.prefix = "plock:v1:"

    # The names of the lock's other keys begin with this.
    def self.beside(key) = "plock:1:{#{place(key)}}"

    def self.queue(key) = "#{beside(key)}:queue"

    def self.companion(key) = "#{beside(key)}:fence"

    SUFFIXES = { 3 => ":semaphore", 4 => ":rw", 5 => ":once", 6 => ":semaphore" }.freeze

    # May this key outlive its lock, until the key itself expires?
    def self.lasting?(key) = key.match?(/\Aplock:1:\{.*\}:fence\z/)

    # Is this a key that a store keeps forever?
    def self.permanent?(key) = key == "plock:1:secret"

    # Does this kind of lock start threads and open descriptors? They must be gone at the end.
    def self.native? = true

    def initialize(address)
      @store = Plock::Store.open(address.url, attempt_timeout: ATTEMPT_TIMEOUT,
                                               release_timeout: RELEASE_TIMEOUT,
                                               command_timeout: COMMAND_TIMEOUT, logger: Ear.new,
                                               **address.options)
    end

    def ways = self.class.ways

    def enter(way, key, **terms, &block)
      __send__(way.name, key, terms, &block)
    rescue Plock::TimeoutError
      raise Refused
    rescue Plock::LeaseLost => e
      raise Lost, e.message
    rescue Plock::UnavailableError => e
      raise Failed, e.message
    end

    def close = @store.close

    Lease = Struct.new(:key, :lease) do
      def fence = lease.fence
      def valid? = lease.valid?
      def valid_until = Torture.ns(lease.valid_until)
      def downgrade = lease.downgrade
      def dump = lease.dump
      def extend = lease.extend
    end

    # Stands in for the lease in a call of `once`, which has no lease and no fence. It is valid only
    # in the process whose call runs the block, and not in a forked child.
    Turn = Struct.new(:key, :pid) do
      def fence = 0
      def valid? = Process.pid == pid
      def valid_until = Clock.now + SECOND
    end

    private

    def acquire(key, terms)
      @store.acquire(key.to_s, **terms) { |lease| yield [Lease.new(key, lease)] }
    end

    # Names the keys in an order that may differ from the order in which the store acquires them.
    def acquire_all(key, terms)
      keys = WAYS.find { |way| way.name == :acquire_all }.keys_from(key)
      @store.acquire_all(keys.map(&:to_s), **terms) do |leases|
        yield keys.zip(leases).map { |pair| Lease.new(*pair) }
      end
    end

    def monitor(key, terms)
      monitor = Plock::Monitor.new(key.to_s, store: @store, **terms)
      monitor.synchronize do
        lease = Thread.current[:plock_monitors].fetch(monitor).lease
        monitor.synchronize { yield [Lease.new(key, lease)] }
      end
    end

    def semaphore(key, terms)
      permits = Torture.way_to(key).permits
      @store.semaphore(key.to_s, permits: permits).acquire(**terms) do |lease|
        yield [Lease.new(key, lease)]
      end
    end

    alias wide semaphore

    def read(key, terms)
      @store.read_write_lock(key.to_s).read(**terms) { |lease| yield [Lease.new(key, lease)] }
    end

    def write(key, terms)
      @store.read_write_lock(key.to_s).write(**terms) { |lease| yield [Lease.new(key, lease)] }
    end

    # Adopts a dumped lease. If the lease is lost before the block begins, the call counts as
    # refused.
    def adopt(key, terms)
      entered = false
      @store.adopt(terms[:dump], ttl: terms[:ttl], label: terms[:label]) do |lease|
        entered = true
        yield [Lease.new(key, lease)]
      end
    rescue Plock::LeaseLost
      entered ? raise : raise(Refused)
    end

    def once(key, terms)
      unless @store
               .once(key.to_s, within: WITHIN, label: terms[:label]) {
                 yield [Turn.new(key, Process.pid)]
               }
               .ran?
        raise Refused
      end
    end
  end

  # An ordinary polling lock. It has no queue, so the call that asks at the right moment gets the
  # lock.
  class Polling
    TAKE = <<~LUA
      if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return false end
      local time = redis.call('TIME')
      local now = time[1] .. string.sub('00000' .. time[2], -6)
      local last = redis.call('GET', KEYS[2])
      if last and last >= now then now = string.format('%.0f', last + 1) end
      redis.call('SET', KEYS[2], now, 'PX', 86400000)
      return now
    LUA
    DROP =
      "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"

    def self.ways = WAYS.first(1)
    def self.queue(_key) = nil
    def self.companion(_key) = nil
    def self.lasting?(key) = key.end_with?(":fence")
    def self.permanent?(_key) = false
    def self.native? = false

    def initialize(address)
      @address = address
      @random = Random.new
    end

    def ways = self.class.ways

    def enter(_way, key, ttl:, wait:, **)
      store_key = "polling:#{key}"
      lease = take(store_key, ttl, Clock.now + Torture.ns(wait))
      lease.key = key
      begin
        yield [lease]
      ensure
        release(store_key, lease.token) if lease.pid == Process.pid
      end
    end

    def close; end

    Lease = Struct.new(:token, :fence, :valid_until, :pid, :key) do
      def valid? = Process.pid == pid && Clock.now < valid_until
    end

    private

    # Each thread and each fiber has a client of its own.
    def client
      Thread.current[:torture_client] ||= RedisClient.config(
        **@address.settings, timeout: ATTEMPT_TIMEOUT, reconnect_attempts: 0
      ).new_client
    end

    def take(key, ttl, patience_ends)
      token = Plock.token
      answered = true
      loop do
        asked_at = Clock.now
        answered = false
        fence = attempt(key, token, ttl)
        answered = true
        if fence
          return Lease.new(token, fence, asked_at + Torture.ns((ttl * 0.99) - 0.002), Process.pid)
        end
        raise Refused if Clock.now >= patience_ends

        left = [(patience_ends - Clock.now).fdiv(SECOND), 0.0].max
        sleep [0.005 + (@random.rand * 0.025), left].min
      end
    rescue RedisClient::Error => e
      raise Failed, e.message
    ensure
      take_back(key, token) unless answered
    end

    # If no answer came, the server may still have granted the lease. Unless the lease is released,
    # it blocks all other calls until it expires.
    def take_back(key, token)
      Thread.new { release(key, token) }.report_on_exception = false
    end

    def attempt(key, token, ttl)
      client.call("EVAL", TAKE, 2, key, "#{key}:fence", token, (ttl * 1000).round)&.to_i
    end

    def release(key, token)
      client.call("EVAL", DROP, 1, key, token)
    rescue RedisClient::Error => e
      raise Failed, e.message
    end
  end

  # Releases the lock without checking its owner. If its own lease has expired, it releases the
  # next holder's lock.
  class NoOwnerCheck < Polling
    private

    def release(key, _token)
      client.call("DEL", key)
    rescue RedisClient::Error => e
      raise Failed, e.message
    end
  end

  # Takes the fence from the worker's clock. Each worker's clock is wrong by a different number of
  # milliseconds.
  class ClockFence < Polling
    SKEW_MS = 5

    private

    def attempt(...) =
      super && (Process.clock_gettime(Process::CLOCK_REALTIME, :millisecond) + skew)

    def skew = @address.settings.fetch(:username)[/\d+/].to_i * SKEW_MS
  end

  ADAPTERS = {
    "product" => Product, "polling" => Polling, "no_owner_check" => NoOwnerCheck,
    "clock_fence" => ClockFence
  }.freeze
end
