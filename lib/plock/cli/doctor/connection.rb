# frozen_string_literal: true

require_relative "check"

module Plock
  module CLI
    module Doctor
      # Checks which server this is, and whether it can hold locks at all.
      class Version < Check
        NAME = "version"
        LEAST = [6, 2].freeze
        private_constant :LEAST

        def look
          version = server.info("server", "redis_version") or return unknown("the version")
          valkey = server.info("server", "server_name") == "valkey"
          name = valkey ? "Valkey #{server.info("server", "valkey_version")}" : "Redis #{version}"
          if (version.split(".").first(2).map(&:to_i) <=> LEAST).negative?
            return danger("#{name} lacks what locks need", "use Redis 6.2 or later, or Valkey")
          end

          fine(name)
        end
      end

      # Checks whether the server has a role in which it may hold locks.
      class Role < Check
        NAME = "role"

        def look
          # Valkey may report the mode as server_mode
          mode = server.info("server", "redis_mode") || server.info("server", "server_mode")
          role = server.info("replication", "role") or return unknown("the role")
          if role == "slave"
            return danger("a replica: it takes no locks", "name the primary, #{primary}")
          end
          return unknown("the mode") unless mode
          return fine("a primary #{beside}") if mode == "standalone"
          return judge_cluster if mode == "cluster"

          danger(
            "a #{mode}: plock cannot keep its promises there",
            "name a server that stands alone, or a primary"
          )
        end

        private

        def beside
          replicas = server.number("replication", "connected_slaves").to_i
          return "of #{replicas} replica#{"s" if replicas > 1}" if replicas.positive?
          return "that sentinels name" if server.store.sentinels.any?

          "that stands alone"
        end

        # Judges the state of the cluster, as this primary reports it.
        def judge_cluster
          state = server.try("CLUSTER", "INFO").to_s[/^cluster_state:(\w+)/, 1]
          return fine("a primary of a cluster") if [nil, "ok"].include?(state)

          danger("a primary of a cluster whose state is #{state}",
                 "CLUSTER INFO and CLUSTER NODES tell which slots no node serves")
        end

        def primary
          host = server.info("replication", "master_host")
          port = server.info("replication", "master_port")
          "#{host}:#{port}"
        end
      end

      # Checks the encryption and authentication of the connection.
      class Encryption < Check
        NAME = "tls"

        def look
          if server.store.unverified_servers?
            return danger("TLS whose certificate is not verified: any server is trusted",
                          "leave verify out, and name the authority by ca_file")
          end
          return judge_sentinels if server.store.url.start_with?("rediss")
          return fine("none, and none needed: it does not leave this host") if server.local?

          advice(
            "none: a host on the path to the server can read the password and the tokens",
            "set tls-port on the server, and use rediss://"
          )
        end

        private

        def judge_sentinels
          store = server.store
          if store.sentinels.empty? || server.local_sentinels? ||
             (store.sentinel_tls? && !store.unverified_sentinels?)
            return fine("TLS, with a verified certificate")
          end
          return advise_verification if store.sentinel_tls?

          advice(
            "TLS to the server, but the sentinels are asked in the clear: a host on the path to " \
              "them can read their password, and name another server",
            "set tls-port on the sentinels, and leave sentinel_tls out"
          )
        end

        def advise_verification
          advice(
            "TLS to the server, but the certificates of the sentinels are not verified: a host " \
              "on the path to them can read their password, and name another server",
            "leave sentinel_verify out, and name the authority by sentinel_ca_file"
          )
        end
      end

      # Checks how long the server takes to answer.
      class RoundTrip < Check
        NAME = "round trip"
        ROUNDS = 11
        # The longest round trip, in seconds, that needs no advice. By default, an attempt has 0.2 s
        # (attempt_timeout) for a connection, TLS and three round trips.
        LONG = 0.02
        private_constant :ROUNDS, :LONG

        def look
          times = Array.new(ROUNDS) { measure }.sort
          message = format("%.2f ms, at worst %.2f", times[ROUNDS / 2] * 1000, times.last * 1000)
          return fine(message) if times[ROUNDS / 2] <= LONG

          advice("#{message}: an attempt may not fit into its time",
                 "use a server that is nearer, or raise attempt_timeout and command_timeout")
        end

        private

        def measure
          asked = Clock.now
          server.ask("TIME")
          Clock.now - asked
        end
      end
    end
  end
end
