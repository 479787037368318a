# frozen_string_literal: true

# redlock on one server. The gem's default timeout of 0.1 s is raised, so that a late reply on a
# busy machine does not cause a retry delay.
module Bench
  module Redlocks
    def self.connect(server, driver, **options)
      require(driver == :hiredis ? "hiredis-client" : "redis-client")
      require "redlock"

      unless RedisClient.default_driver == RedisClient.driver(driver)
        raise Failed, "redis-client took another driver"
      end

      Redlock::Client.new([server.url(:tcp)], redis_timeout: 2.0, **options)
    end
  end
end

{
  "redlock-hiredis" => [
    "redlock, hiredis-client", %w[redlock redis-client hiredis-client], :hiredis
  ],
  "redlock" => ["redlock", %w[redlock redis-client], :ruby]
}.each do |name, (label, gems, driver)|
  Bench.contestant name, label: label, role: :peer, gems: gems do |server|
    manager = Bench::Redlocks.connect(server, driver)
    -> { manager.lock!("bench:redlock", 10_000) { :held } }
  end
end

# Polls every 200 to 250 ms, the gem's default. By default, the gem gives up after three attempts.
# Here it continues for about Bench::WAIT seconds.
Bench.contender "redlock-hiredis" do |server|
  -> do
    manager = Bench::Redlocks.connect(server, :hiredis, retry_count: (Bench::WAIT / 0.225).round)
    ->(key, section) { manager.lock!(key, Bench::TTL * 1000, &section) }
  end
end
