# frozen_string_literal: true

require "moneta"
require "redis-client"
require_relative "parse_context"

# Whatever store an application configures, it acquires the same lock.
RSpec.describe Parse::Lock, "with each kind of store" do
  include_context "with Parse"

  # A class with the public methods of Parse Stack's own cache.
  let(:parse_cache) do
    stub_const("Parse::Cache::Redis", Class.new do
      def initialize(path)
        clients =
          ConnectionPool.new(size: 1, auto_reload_after_fork: false) do
            Moneta.new(:Redis, path: path, value_serializer: nil)
          end
        @pool = Struct.new(:pool).new(clients)
      end
    end)
  end

  kinds = {
    "a plock store" => ->(path) { open_store("unix://#{path}") },
    "a URL" => ->(path) { "unix://#{path}" },
    "a redis object" => ->(path) { Redis.new(path: path) },
    "a redis-client object" => ->(path) { RedisClient.config(path: path).new_client },
    "a redis-client pool" => ->(path) { RedisClient.config(path: path).new_pool(size: 2) },
    "a ConnectionPool of redis objects" => ->(path) do
      ConnectionPool.new(size: 2) { Redis.new(path: path) }
    end,
    "a wrapped ConnectionPool" => ->(path) do
      ConnectionPool.wrap(size: 2) { Redis.new(path: path) }
    end,
    "Parse::Cache::Redis" => ->(path) { parse_cache.new(path) },
    "Moneta over Redis with plain values" => ->(path) do
      Moneta.new(:Redis, path: path, value_serializer: nil)
    end
  }
  kinds.each do |kind, make|
    context "which is #{kind}" do
      let(:store) { instance_exec(shared_redis.unix_path, &make) }

      before { Parse.synchronize_create_store = store }

      it "holds the lock in Redis, with the token in plain and a time to live, and releases it" do
        token, stored, left =
          acquire do |own|
            [own, shared_redis.call("GET", store_key), shared_redis.call("PTTL", store_key)]
          end
        expect(stored).to eq(token)
        expect(left).to be_between(1, 3_000)
        expect(held?).to be(false)
      end

      it "excludes another process, whose store is a URL" do
        path = shared_redis.unix_path
        acquire do
          expect(in_child do
            Parse.synchronize_create_store = "unix://#{path}"
            acquire(wait: 0) { :entered }
          rescue Parse::Lock::TimeoutError
            :excluded
          end).to eq(:excluded)
        end
      end

      it "is not entered while another process holds the lock" do
        held_by_another
        expect { acquire(wait: 0) { :never } }.to raise_error(Parse::Lock::TimeoutError)
      end
    end
  end

  {
    "Moneta over Redis that compresses" => ->(path) do
      Moneta.new(:Redis, path: path, compress: true)
    end,
    "Moneta over Redis as it is by default" => ->(path) { Moneta.new(:Redis, path: path) }
  }.each do |kind, make|
    it "which is #{kind} holds the lock in the same key, and reads its own token there" do
      Parse.synchronize_create_store = store = instance_exec(shared_redis.unix_path, &make)
      token, stored, there = acquire { |own| [own, store[store_key], held?] }
      expect([stored, there, held?]).to eq([token, true, false])
    end
  end

  { "Moneta in memory" => -> { Moneta.new(:Memory) }, "nil" => -> {} }.each do |kind, make|
    it "which is #{kind} says that it is process-local, and holds nothing in Redis" do
      Parse.synchronize_create_store = make.call
      there = nil
      expect(warnings { there = acquire { held? } }).to contain_exactly(/process-local/)
      expect(there).to be(false)
    end
  end
end
