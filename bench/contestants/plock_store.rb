# frozen_string_literal: true

# The engine below the public API. A pair is one call of Store#hold. The key's name in the store is
# made before the measurement. The difference from Parse::Lock is the cost of the public API.
%i[tcp unix].each do |transport|
  Bench.contestant "store-#{transport}",
                   label: "plock, Store#hold",
                   role: :engine,
                   transport: transport do |server|
    require "plock"

    store = Plock::Store.open(server.url(transport))
    key = Plock.store_key("bench:store:", "key", Bench::SECRET)
    -> { store.hold(key, 10_000, 2.0, nil) { :held } }
  end
end
