# frozen_string_literal: true

# The product as an application calls it: store resolution, argument rules, HMAC digest, token, fence and owner record.
%i[tcp unix].each do |transport|
  Bench.contestant "plock-#{transport}", label: "plock, Parse::Lock", role: :plock, transport: transport do |server|
    require "parse/lock"

    Parse.synchronize_create_secret = Bench::SECRET
    Parse.synchronize_create_store = Plock::Store.open(server.url(transport))
    -> { Parse::Lock.acquire("bench:plock", ttl: 10, wait: 2.0, on_degraded: :raise) { :held } }
  end
end
