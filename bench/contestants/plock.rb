# frozen_string_literal: true

# plock as an application calls it: with store resolution, argument rules, HMAC digest, token,
# fence and owner record.
module Bench
  module FrontDoor
    def self.open(server, transport)
      require "parse/lock"

      Parse.synchronize_create_secret = SECRET
      Parse.synchronize_create_store = Plock::Store.open(server.url(transport))
    end
  end
end

%i[tcp unix].each do |transport|
  Bench.contestant "plock-#{transport}",
                   label: "plock, Parse::Lock",
                   role: :plock,
                   transport: transport do |server|
    Bench::FrontDoor.open(server, transport)
    -> { Parse::Lock.acquire("bench:plock", ttl: 10, wait: 2.0, on_degraded: :raise) { :held } }
  end
end

# All threads of a process share one store, as in an application.
Bench.contender "plock-tcp" do |server|
  Bench::FrontDoor.open(server, :tcp)
  -> do
    ->(key, section) do
      Parse::Lock.acquire(key, ttl: Bench::TTL, wait: Bench::WAIT, on_degraded: :raise, &section)
    end
  end
end
