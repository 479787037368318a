# frozen_string_literal: true

require_relative "check"

module Plock
  module CLI
    module Doctor
      # Checks whether the server may drop held locks when its memory is short.
      class Eviction < Check
        NAME = "eviction"
        NEVER = "noeviction"
        FULL = 0.9 # memory counts as full from this fraction of the limit
        private_constant :NEVER, :FULL

        REMEDY = "CONFIG SET maxmemory-policy noeviction, and in its configuration file; keep " \
                 "caches on another server"

        def look
          policy = server.info("memory", "maxmemory_policy") or return unknown("the policy")
          limit = server.number("memory", "maxmemory")
          return limited(policy, limit) unless limit.nil? || limit.zero?
          return fine("#{policy}, and no limit of memory") if policy == NEVER

          advice(
            "#{policy}, but no limit of memory: nothing is dropped as long as none is set", REMEDY
          )
        end

        private

        def limited(policy, limit)
          unless policy == NEVER
            return danger(
              "#{policy}: when memory is short, locks are dropped while they are held", REMEDY
            )
          end

          used = server.number("memory", "used_memory").to_f / limit
          return fine("#{policy}, #{(used * 100).round} % of the memory in use") if used < FULL

          advice("#{policy}, #{(used * 100).round} % of the memory in use: when there is no " \
                 "more, no lock is granted",
                 "raise maxmemory, or store less")
        end
      end

      # Checks whether locks survive the end of the server's process.
      class Persistence < Check
        NAME = "persistence"
        REMEDY = "CONFIG SET appendonly yes and CONFIG SET appendfsync always, and in its " \
                 "configuration file; or let fences reject who is late"

        def look
          enabled = server.info("persistence", "aof_enabled") or return unknown("persistence")
          if enabled == "0"
            return danger("no append-only file: a restart forgets every lock that is held", REMEDY)
          end
          if server.info("persistence", "aof_last_write_status") == "err"
            return danger(
              "the append-only file cannot be written", "see the server's log, and its disk"
            )
          end

          case sync = server.setting("appendfsync")
          when nil then unknown("appendfsync")
          when "always" then fine("an append-only file, written out before a lock is granted")
          else danger("appendfsync #{sync}: a crash forgets the locks of the last moments", REMEDY)
          end
        end
      end

      # Checks whether locks survive a change of the primary.
      class Replication < Check
        NAME = "replication"

        def look
          connected = server.number("replication", "connected_slaves") or
            return unknown("replication")
          replicas = [connected, *known_to_sentinels].max
          asked = server.store.replicas
          return missing(connected, asked) if connected < asked
          return fine("no replicas") if replicas.zero?
          return unasked(replicas) if asked.zero?
          return fine("#{replicas}, and each lock waits for all of them") if replicas == asked

          danger("#{asked} of #{replicas} confirm a lock: one that has not done so may take over",
                 "replicas: #{replicas}")
        end

        private

        # Returns, for each sentinel that answers, how many replicas it knows. {Sentinels} reports
        # why a sentinel does not answer.
        def known_to_sentinels
          answers = server.sentinels.values.grep(Hash)
          answers.filter_map { |facts| facts["num-slaves"]&.to_i }
        end

        def missing(replicas, asked)
          danger("replicas: #{asked}, but #{replicas} are connected: no lock is granted",
                 "start the others, or ask for fewer")
        end

        def unasked(replicas)
          danger(
            "#{replicas} replica#{"s" if replicas > 1}, which plock does not wait for: one " \
              "that takes over may not know of the latest locks",
            "replicas: #{replicas} makes them confirm each lock; or let fences reject who is late"
          )
        end
      end
    end
  end
end
