# frozen_string_literal: true

require_relative "check"
require_relative "rights"
require_relative "server"
require_relative "surroundings"

module Plock
  module CLI
    module Doctor
      # The nodes of a Redis Cluster: the primaries, and the replicas that each primary names.
      class Cluster
        LEVELS = %i[fine advice unknown danger].freeze
        UNTOLD = [nil, "", "?"].freeze # how CLUSTER SLOTS shows a host that a node does not know
        private_constant :LEVELS, :UNTOLD

        attr_reader :store

        # @return [Hash{String => Server}] by address, the primaries that answer
        attr_reader :primaries

        # @return [Hash{String => Error}] by address, why the other primaries do not answer
        attr_reader :failures

        # @return [Cluster, nil] nil: the store is not on a cluster
        # @raise [Error] no primary answers
        def self.of(store)
          return unless Store::CLUSTER.match?(store.url)

          begin
            Server.new(store).ask("TIME") # makes the store learn which nodes there are
          rescue Error
            raise if store.primaries.empty?
          end
          new(store)
        end

        # @param store [Store] whose primaries are known
        # @raise [Error] no primary answers
        def initialize(store)
          @store = store
          @primaries = {}
          @failures = {}
          store.primaries.each { |place| reach(place) }
          raise failures.values.first if primaries.empty?
        end

        # Runs a check on each primary, and returns the gravest finding.
        #
        # @param check [Class] a subclass of {Check}
        def run(check)
          findings = primaries.transform_values { |server| check.run(server) }
          worst = findings.values.max_by { |finding| LEVELS.index(finding.level) }
          places = findings.select { |_, finding| finding == worst }.keys
          return worst if places.size == findings.size

          worst.dup.tap { |one| one.message = "#{places.join(", ")}: #{worst.message}" }
        end

        # The addresses come from CLUSTER SLOTS, because a store uses these addresses after a
        # failover. INFO would give the address from which a replica has connected, which may be
        # different.
        #
        # @return [Hash{String => Array<Array(String, String)>, nil}] by the address of each
        #   primary, the addresses of its replicas; nil: the primary does not report them
        def replicas = @replicas ||= primaries.transform_values { |server| replicas_of(server) }

        private

        # In the answer to CLUSTER SLOTS, a range of slots is [first, last, primary, replica,
        # replica …], and a node is [host, port, id, more].
        def replicas_of(server)
          id = server.try("CLUSTER", "MYID")
          ranges = server.try("CLUSTER", "SLOTS").to_a.map { |range| range.drop(2) }
          own = ranges.select { |primary, *| primary[2] == id }
          return if own.empty?

          nodes = own.flat_map { |_, *replicas| replicas }.uniq { |node| node[2] }
          nodes.map { |host, port| [UNTOLD.include?(host) ? server.place[0] : host, port.to_s] }
        end

        def reach(place)
          server = Server.new(store, place)
          server.ask("TIME")
          @primaries[place.join(":")] = server
        rescue Error => e
          @failures[place.join(":")] = e
        end
      end

      # Checks whether the cluster serves all keys, and whether it still serves keys after a node
      # has failed. The finding also says which locks a failover loses. The `server` of this check
      # is a {Cluster}.
      class Nodes < Check
        NAME = "cluster"
        ALL = 16_384
        RULES = %w[flags commands keys channels].freeze
        REFUSALS = %i[wrongpass noauth].freeze
        USERS = "give all nodes the same users"
        private_constant :ALL, :RULES, :REFUSALS, :USERS

        def look = away || unserved || foreign || partial || without_replicas || whole

        private

        def any = server.primaries.values.first

        def setting(name) = any.setting(name)

        def away
          place, error = server.failures.first
          return unless place

          danger("#{place} does not answer this user: #{error.message}",
                 "start it, or correct its credentials: its keys are not served")
        end

        def unserved
          slots = any.try("CLUSTER", "INFO").to_s[/^cluster_slots_ok:(\d+)/, 1]
          return if slots.nil? || slots.to_i == ALL

          danger("#{slots} of #{ALL} slots are served", "CLUSTER NODES tells which are not")
        end

        # Finds a replica that gives this user other permissions than the replica's primary does.
        # They can differ, because each node has its own list of users.
        def foreign
          server.replicas.each do |primary, places|
            places.to_a.each do |place|
              trouble, remedy = difference(server.primaries[primary], place)
              next unless trouble

              return danger("the replica #{place.join(":")} #{trouble}: when it takes over, no " \
                            "lock can be taken there", remedy)
            end
          end
          nil
        end

        # @return [Array(String, String), nil] what is wrong with a replica, and its remedy
        def difference(primary, place)
          replica = Server.new(server.store, place)
          ["has other rights than its primary", USERS] unless rules(replica) == rules(primary)
        rescue Error, ArgumentError => e # ArgumentError: no node can have such an address
          return ["refuses the credentials", USERS] if Error === e && REFUSALS.include?(e.code)

          ["cannot be asked (#{e.message})", "start it, or correct its address or certificate"]
        end

        def rules(one)
          name = one.try("ACL", "WHOAMI")
          one.try("ACL", "GETUSER", name)&.each_slice(2).to_h.slice(*RULES)
        end

        def partial
          return unless setting("cluster-require-full-coverage") == "yes"

          advice("cluster-require-full-coverage yes: when a primary is away without a replica " \
                 "that takes over, no key at all is served",
                 "CONFIG SET cluster-require-full-coverage no on each node")
        end

        # Finds the primaries without a replica. CLUSTER SLOTS omits a replica that has received no
        # data yet. INFO counts such a replica, so this method asks INFO as well.
        def alone
          empty = server.replicas.select { |_, places| places&.empty? }.keys
          empty.reject do |primary|
            server.primaries[primary].number("replication", "connected_slaves")&.positive?
          end
        end

        def without_replicas
          bare = alone
          if bare.empty?
            return if server.replicas.values.all?

            return unknown("the replicas", "give the user +cluster|slots and +cluster|myid")
          end

          advice("#{bare.join(", ")}: without a replica, its keys are not served while it is away",
                 "give each primary a replica, on another host")
        end

        def whole
          span = setting("cluster-node-timeout")
          span &&= " A replica takes over from a primary that was silent for " \
                   "#{span.to_i / 1000.0} s. A primary that is cut off goes on for as long."
          fine("#{server.primaries.size} primaries with replicas.#{span} A failover loses the " \
               "locks that the replica had not received")
        end
      end

      # Compares the clocks of the nodes. The `server` of this check is a {Cluster}.
      class NodeClocks < Check
        NAME = "node clocks"
        APART = 0.1 # seconds
        private_constant :APART

        def look
          offsets = server.primaries.transform_values { |one| Clocks.offset(one) }
          return unknown("the time") unless offsets.values.all?

          first, last = offsets.minmax_by(&:last)
          apart = last[1] - first[1]
          return fine(format("%.3f s apart", apart)) if apart <= APART

          advice(
            format("%s is %.1f s behind %s: while a slot moves between them, a fence may be " \
                   "smaller than an earlier one", first[0], apart, last[0]),
            "run NTP on all nodes"
          )
        end
      end
    end
  end
end
