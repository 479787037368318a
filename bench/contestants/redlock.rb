# frozen_string_literal: true

# redlock on one server. Its default timeout of 0.1 s is raised: a busy machine must not turn a late reply into its retry delay.
{
  "redlock-hiredis" => ["redlock, hiredis-client", %w[redlock redis-client hiredis-client], :hiredis],
  "redlock" => ["redlock", %w[redlock redis-client], :ruby]
}.each do |name, (label, gems, driver)|
  Bench.contestant name, label: label, role: :peer, gems: gems do |server|
    require(driver == :hiredis ? "hiredis-client" : "redis-client")
    require "redlock"

    raise Bench::Failed, "redis-client took another driver" unless RedisClient.default_driver == RedisClient.driver(driver)

    manager = Redlock::Client.new([server.url(:tcp)], redis_timeout: 2.0)
    -> { manager.lock!("bench:redlock", 10_000) { :held } }
  end
end
