# frozen_string_literal: true

require_relative "supervisor"

module Support
  # What examples about metrics, traces and logs have in common.
  module Observed
    # The stores whose leases are observed. Nothing that is told of them depends on the store.
    PLACES = {
      "on Redis" => -> { shared_redis.unix_url },
      "in a local store" => -> { local_url("locks") },
      "in memory" => -> { "memory:observed" }
    }.freeze

    # Describes each of them, with the store as `store`.
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

    # A file of this process.
    def local_url(name)
      "local:#{File.join(Supervisor.folder, "observed-#{name}-#{Process.pid}")}"
    end

    # A lease is renewed in time and then late, its release fails, and so does the next call. The
    # block begins to observe the store.
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
