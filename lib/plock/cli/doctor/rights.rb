# frozen_string_literal: true

require_relative "check"

module Plock
  module CLI
    module Doctor
      # Advises against a user that may run all commands or use all keys, because locks need few of
      # them.
      class Rights < Check
        NAME = "rights"

        # The permissions that plock needs on a single server. {.remedy} adds those that sentinels,
        # a cluster, replicas or a database other than 0 require.
        SMALLEST = %w[
          ~plock:* ~parse-stack:lock:v1:* resetchannels &plock:1:wake:* +evalsha +eval +script|load
          +subscribe +publish +time +set +get +del +exists +pttl +pexpire +pexpireat +zadd +zrem
          +zrange +zrangebyscore +zrank +zscore +zcard +zcount +hget +hset +hdel +scan
        ].freeze

        # @return [String] the command that creates a user with these permissions
        def self.remedy(server)
          store = server.store
          rights = SMALLEST.dup
          rights << "+role" if store.respond_to?(:sentinels) && store.sentinels.any?
          rights << "+select" if store.respond_to?(:selects?) && store.selects?
          rights << "+wait" if store.respond_to?(:replicas) && store.replicas.positive?
          if Store::CLUSTER.match?(store.url)
            rights.push("+cluster|slots", "+cluster|myid", "+asking")
            # Redis before 7 does not know these commands, and refuses an ACL that names them
            newer = server.info("server", "redis_version").to_i >= 7
            rights.push("+ssubscribe", "+spublish") if newer
          end
          "ACL SETUSER locks on >PASSWORD #{rights.join(" ")}"
        end

        def look
          name = server.try("ACL", "WHOAMI")
          user = name && server.try("ACL", "GETUSER", name)
          return fine("too few to ask the server which") unless user

          judge(name, user.each_slice(2).to_h)
        end

        private

        def judge(name, user)
          everything = []
          everything << "all commands" if user["commands"].to_s.match?(/\A\+@all\z/)
          # `keys` is a String from Redis 7 on, and an Array before that
          everything << "all keys" if Array(user["keys"]).flat_map(&:split).intersect?(%w[~* *])
          return fine("user #{name} is limited in keys and commands") if everything.empty?

          password = "without a password, " if Array(user["flags"]).include?("nopass")
          advice(
            "user #{name} may, #{password}use #{everything.join(" and ")}",
            Rights.remedy(server)
          )
        end
      end

      # Acquires a lock, waits for it, hands it over and releases it. This shows whether a
      # permission is missing.
      class Trial < Check
        NAME = "trial"
        TTL = 5.0
        PATIENCE = 2.0
        LOOK = 0.005
        TRIES = 50_000 # random keys; many, because a node may serve only one slot
        private_constant :TTL, :PATIENCE, :LOOK, :TRIES

        def look
          key = choose_key
          seconds = hand_over(key)
          message = "taken, waited for, handed over in %.2f ms, given back"
          return fine(format(message, seconds * 1000)) if seconds

          danger("a lock was not handed over to its waiter",
                 "see the server's log, and whether a proxy before the server blocks SUBSCRIBE")
        rescue ConfigurationError => e
          raise unless e.code == :other_secret

          Finding.new(
            NAME, :unknown, "not tried: others use another secret", "see the check of the secret"
          )
        rescue PermissionError => e
          danger(e.message, Rights.remedy(server))
        rescue Error => e
          danger(e.message, "the message names the cause")
        end

        private

        # Chooses a random key. In a cluster, it is one that the examined node serves.
        def choose_key
          key = nil
          TRIES.times do
            key = "plock doctor #{Plock.token}"
            store_key = server.store.config.store_key(key)
            break if server.place.nil? || server.store.node_of(store_key) == server.place
          end
          key
        end

        # @return [Float, nil] seconds from the release until the waiter had the lease; nil if the
        #   waiter got no lease
        def hand_over(key)
          holder = server.store.acquire(key, ttl: TTL, wait: PATIENCE, label: "plock doctor")
          waiter = Thread.new { wait_for(key) }
          await_waiter(key, waiter)
          released = Clock.now
          holder.release
          entered = waiter.value
          entered && (entered - released)
        ensure
          holder&.release
        end

        def wait_for(key)
          Thread.current.report_on_exception = false
          server.store.try_acquire(key, ttl: TTL, wait: PATIENCE) { Clock.now }
        end

        def await_waiter(key, waiter)
          deadline = Clock.now + PATIENCE
          until !waiter.alive? || server.store.status(key).waiters.any? || Clock.now > deadline
            sleep LOOK
          end
        end
      end
    end
  end
end
