# frozen_string_literal: true

require_relative "supervisor"

module Support
  # Helpers for the examples of metrics, traces and logs.
  module Observed
    # The stores whose leases are observed. The results must be the same for each store.
    PLACES = {
      "on Redis" => -> { shared_redis.unix_url },
      "in a local store" => -> { local_url("locks") },
      "in memory" => -> { "memory:observed" }
    }.freeze

    # Runs the examples once for each of these stores, which they use as `store`.
    #
    #   in_each_place { it("…") { store.acquire("k") { … } } }
    module Places
      def in_each_place(places = PLACES, &examples)
        places.each do |place, url|
          describe(place) do
            let(:store) { used(open_store(instance_exec(&url))) }
            class_exec(&examples)
          end
        end
      end
    end

    def self.included(group)
      super
      group.extend(Places)
    end

    # The URL of a local store, in a file of this process.
    def local_url(name)
      "local:#{File.join(Supervisor.folder, "observed-#{name}-#{Process.pid}")}"
    end

    # Lets a lease be renewed, first in time and then too late. Then the lease's release fails, and
    # so does the next call. The block starts the metrics, traces or logs.
    def suffer(key, **options)
      gate = proxy
      store = used(open_store(gate.url, command_timeout: 0.1, release_timeout: 0.05))
      yield
      renewals = Queue.new
      subscription = Plock.subscribe(:renew) { |event| renewals << event.details[:late] }
      warnings do
        store.acquire(key, ttl: 3, renew: true, **options) do |lease|
          expect(renewals.pop).to be(false)
          cut(gate)
          eventually { lease.remaining < 0.9 }
          gate.forward
          expect(renewals.pop).to be(true)
          cut(gate)
        end
        expect { store.acquire(key, wait: 0.1) { nil } }.to raise_error(Plock::UnavailableError)
      end
      gate.forward
    ensure
      Plock.unsubscribe(subscription)
    end

    private

    def cut(gate)
      gate.refuse
      gate.disconnect
    end
  end
end
