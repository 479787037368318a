# frozen_string_literal: true

# A process of the original gem remote_lock. It reads commands from its input, one on each line,
# and answers each with one word:
#
#   acquire KEY EXPIRY RETRIES   acquired | refused
#   acquired? KEY                true | false
#   release KEY                  released
#
# The program's arguments are redis or memcached, and the address.

require "socket"
require "stringio"

kind, address = ARGV
complaints = $stderr
$stderr = StringIO.new # the gem causes warnings in current Rubies
require "remote_lock"

# Has the methods of redis-rb as the gem knows them: predicates return true or false, and the
# commands in a `multi` block are sent at its end.
class RedisOfThen
  def initialize(url)
    require "redis-client"
    @client = RedisClient.config(url: url).new_client
  end

  def watch(key) = @client.call("WATCH", key)
  def exists(key) = @client.call("EXISTS", key) == 1
  def get(key) = @client.call("GET", key)
  def del(key) = @client.call("DEL", key)

  def setex(*words)
    @queue ? @queue << ["SETEX", *words] : @client.call("SETEX", *words)
  end

  def multi
    @queue = []
    yield
    queue, @queue = @queue, nil
    @client.call("MULTI")
    queue.each { |command| @client.call(*command) }
    @client.call("EXEC")
  ensure
    @queue = nil
  end
end

adapter =
  if kind == "redis"
    RemoteLock::Adapters::Redis.new(RedisOfThen.new(address))
  else
    require "memcache"
    RemoteLock::Adapters::Memcached.new(MemCache.new([address]))
  end
lock = RemoteLock.new(adapter)
$stderr = complaints

$stdout.sync = true
puts "ready"
while (line = $stdin.gets)
  word, key, expiry, retries = line.split
  answer =
    case word
    when "acquire"
      begin
        lock.acquire_lock(key, expiry: Integer(expiry), retries: Integer(retries))
        "acquired"
      rescue RemoteLock::Error
        "refused"
      end
    when "acquired?" then lock.acquired?(key)
    when "release" then lock.release_lock(key) && "released"
    end
  puts answer
end
