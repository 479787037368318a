# frozen_string_literal: true

# The engine below the public API: one call, with a key whose name in the store is already made.
# Parse::Lock adds the cost of the public API.
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
