# frozen_string_literal: true

# beside_other_constants_spec.rb runs this program in a process of its own. Its arguments are the
# path of a Redis, and the names to define as classes of Parse. It prints its results as JSON.

path, *names = ARGV

require "connection_pool"
require "fileutils"
require "json"
require "moneta"
require "redis"
require "redis-client"
require "stringio"
require "tmpdir"

module Parse
  class Error < StandardError; end

  module Cache
  end
end

# Defines classes that raise at each use.
names.each do |name|
  hostile = Class.new
  singleton = hostile.singleton_class
  %i[
    ===
    ==
    new
    allocate
    const_get
    respond_to?
    instance_method
    synchronize
    current
    clock_gettime
    pid
    expand_path
  ].each do |method|
    singleton.define_method(method) { |*| raise ::NotImplementedError, "Parse::#{name} was used" }
  end
  singleton.define_method(:method_missing) do |method, *|
    raise ::NotImplementedError, "Parse::#{name}.#{method} was used"
  end
  Parse.const_set(name, hostile)
end

require "parse/lock"

class LockingStore
  attr_accessor :trouble

  def initialize
    @owners = {}
  end

  def lock_acquire(key, owner, _ttl)
    raise trouble if trouble

    !@owners.key?(key) && (@owners[key] = owner) && true
  end

  def lock_release(key, owner) = @owners[key] == owner && @owners.delete(key) && true
end

class CreatingStore
  def initialize
    @values = {}
  end

  def key?(key) = @values.key?(key)
  def create(key, value, expires:) = expires && !@values.key?(key) && (@values[key] = value) && true
  def [](key) = @values[key]
  def delete(key) = @values.delete(key)
end

class Parse::Cache::Redis
  def initialize(path)
    clients = ConnectionPool.new(size: 1) { Moneta.new(:Redis, path: path, value_serializer: nil) }
    @pool = Struct.new(:pool).new(clients)
  end
end

def heard
  lines = []
  said = $stderr
  $stderr = StringIO.new
  value = yield
  lines = $stderr.string.lines(chomp: true)
  [value, lines]
ensure
  $stderr = said
end

def told
  yield
rescue StandardError => e
  e.class.name
end

# Holds the lock, has another thread ask for it, and acquires it again.
def tried(store, silent: true)
  Parse.synchronize_create_store = store
  degraded = Parse::LockBackend.degraded_store?(Parse::LockBackend.lock_store)
  mode = silent ? :proceed : :warn
  rival = nil
  value = Parse::Lock.acquire("key", on_degraded: mode, wait: 20) do
    rival =
      Thread
        .new { told { Parse::Lock.acquire("key", on_degraded: mode, wait: 0) { "entered" } } }
        .value
    "inside"
  end
  after = told { Parse::Lock.acquire("key", on_degraded: mode, wait: 20) { "free" } }
  { value: value, degraded: degraded, rival: rival, after: after }
end

# Kills a thread that holds the lock, and then asks for the lock.
def killed(store)
  Parse.synchronize_create_store = store
  inside = Queue.new
  thread =
    Thread.new do
      Parse::Lock.acquire("killed", on_degraded: :proceed) { inside.push(true) && sleep }
    end
  inside.pop
  thread.kill.join
  told { Parse::Lock.acquire("killed", on_degraded: :proceed, wait: 0) { "free" } }
end

ENV["PARSE_STACK_LOCK_SECRET"] = "the secret of all"
folder = Dir.mktmpdir
at_exit { FileUtils.remove_entry(folder) }

answers = {
  "a plock store" => Plock::Store.open("unix://#{path}"),
  "a URL" => "unix://#{path}?db=1",
  "a redis object" => Redis.new(path: path),
  "a redis-client object" => RedisClient.config(path: path).new_client,
  "a redis-client pool" => RedisClient.config(path: path).new_pool(size: 2),
  "a ConnectionPool" => ConnectionPool.new(size: 2) { Redis.new(path: path) },
  "a wrapped ConnectionPool" => ConnectionPool.wrap(size: 2) { Redis.new(path: path) },
  "Moneta over Redis" => Moneta.new(:Redis, path: path),
  "Moneta over Redis that compresses" => Moneta.new(:Redis, path: path, compress: true),
  "Parse::Cache::Redis" => Parse::Cache::Redis.new(path),
  "a local store" => "local:#{folder}/locks",
  "Moneta over files" => Moneta.new(:File, dir: "#{folder}/moneta"),
  "an object that locks" => LockingStore.new,
  "an object that creates" => CreatingStore.new,
  "nil" => nil,
  "Moneta in memory" => Moneta.new(:Memory),
  "an object that is no store" => Object.new
}.transform_values { |store| tried(store) }

Parse.define_singleton_method(:cache) { @cache ||= LockingStore.new }
answers["Parse.cache"] = tried(nil)
Parse::Error.const_set(:ConnectionError, Class.new(Parse::Error))
Parse.define_singleton_method(:cache) { raise Parse::Error::ConnectionError, "gone" }
answers["Parse.cache that fails"] = tried(nil)

answers["modes"] = %i[warn warn_throttled proceed].to_h do |mode|
  [mode, heard { Parse::Lock.acquire("mode", on_degraded: mode) { nil } }.last]
end
answers["modes"][:raise] = told { Parse::Lock.acquire("mode", on_degraded: :raise) { nil } }

store = LockingStore.new
mutex = Parse::LockBackend.process_mutex("key")
answers["backend"] = {
  acquired: %w[one two].map { |owner| Parse::LockBackend.try_acquire(store, "key", owner, 3) },
  released: %w[one two].map { |owner| Parse::LockBackend.release(store, "key", owner) },
  mutex: [mutex.try_lock, mutex.owned?, mutex.unlock && mutex.locked?],
  synchronized: Parse::LockBackend.synchronize_process_mutex("key") { "inside" },
  plain: heard { Parse::LockBackend.warn_plain_sha_once(source: "me") }.last.size,
  secret: Parse::LockBackend.lock_secret_for(store: nil)
}
Parse::LockBackend.auto_secret
Parse::LockBackend.poll_interval
Parse::LockBackend.monotonic_now

store.trouble = IOError.new("gone")
Parse.synchronize_create_store = store
raised, warned = heard { told { Parse::Lock.acquire("key", wait: 0) { "entered" } } }
answers["failing"] = { raised: raised, warned: warned }

answers["killed"] = { "nil" => killed(nil), "an object that locks" => killed(LockingStore.new) }

answers["refused"] = [
  -> { Parse::Lock.acquire("key") },
  -> { Parse::Lock.acquire(1) { nil } },
  -> { Parse::Lock.acquire("key", on_degraded: :wran) { nil } },
  -> { Parse::Lock.acquire("key", secret: "short") { nil } },
  -> { Parse::Lock.acquire("key", ttl: nil) { nil } },
  -> { Parse::Lock.acquire("key", ttl: Float::INFINITY) { nil } },
  -> { Parse::Lock.acquire("key", wait: Float::NAN) { nil } }
].map { |call| told(&call) }
Parse::Lock.reset!

puts JSON.generate(answers)
