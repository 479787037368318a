# frozen_string_literal: true

require_relative "cluster"
require_relative "connection"
require_relative "elsewhere"
require_relative "host"
require_relative "memory"
require_relative "rights"
require_relative "secret"
require_relative "sentinels"
require_relative "server"
require_relative "surroundings"

module Plock
  module CLI
    module Doctor
      # All checks of one store.
      module Examination
        ON_SERVER = [
          Version, Role, Encryption, RoundTrip, Eviction, Persistence, Replication, Sentinels,
          Rights, Trial, Clocks, Descriptors, Secret
        ].freeze
        # On a cluster, the checks of AT_NODES run on each primary. Those of OF_CLUSTER run once.
        AT_NODES = (ON_SERVER - [Sentinels, Secret]).freeze
        OF_CLUSTER = [Nodes, NodeClocks, Secret].freeze
        ONLY_OF_CLUSTER = (OF_CLUSTER - ON_SERVER).freeze
        HERE = [Place, FileSystem, Trial, Descriptors, Secret].freeze
        ELSEWHERE = [Unseen, Trial, Descriptors, Secret].freeze
        ALL = (ON_SERVER | OF_CLUSTER | HERE | ELSEWHERE).freeze

        # The checks that acquire a lock.
        ACTIVE = [Trial].freeze

        PROBE = "plock doctor" # a key that need not be held
        private_constant :PROBE

        class << self
          # @param except [Array<Class>] checks to leave out
          # @raise [Error] the request to the store failed
          def of(store, except: [])
            cluster = Cluster.of(store) if store.is_a?(Store)
            return of_cluster(cluster, except) if cluster

            subject, checks = reach(store)
            (checks - except).map { |check| check.run(subject) }
          end

          private

          def of_cluster(cluster, except)
            (AT_NODES - except).map { |check| cluster.run(check) } +
              (OF_CLUSTER - except).map { |check| check.run(cluster) }
          end

          # @return [Array(Server | Elsewhere, Array<Class>)]
          # @raise [Error] the store cannot be used
          def reach(store)
            case store
            when LocalStore then [Elsewhere.new(store), HERE]
            when Store
              server = Server.new(store)
              server.ask("TIME") # raises if the server refuses; any locking user may call TIME
              [server, ON_SERVER]
            else
              store.examine(store.config.store_key(PROBE), false)
              [Elsewhere.new(store), ELSEWHERE]
            end
          end
        end
      end
    end
  end
end
