# frozen_string_literal: true

require_relative "check"

module Plock
  module CLI
    module Doctor
      # Checks whether the sentinels can replace a primary, and what a failover may lose.
      class Sentinels < Check
        NAME = "sentinels"
        LEAST = 3 # so that the loss of one sentinel leaves a majority
        REPLICAS = "min-replicas-to-write"
        LAG = "min-replicas-max-lag"
        LONGEST_LAG = 10 # seconds, the default of Redis
        private_constant :LEAST, :REPLICAS, :LAG, :LONGEST_LAG

        def look
          told = server.sentinels
          return fine("none, and none needed: the URL names the server") if told.empty?

          @failures =
            told
              .transform_values { |answer| Error === answer ? answer : answer["ckquorum"] }
              .select { |_, outcome| Error === outcome }
          @answers = told.except(*@failures.keys)
          trouble || isolation || silent || lone || long_lag || few || unread || outlook
        end

        private

        # @return [Finding, nil] what endangers a failover most; nil if nothing does
        def trouble
          addresses = @answers.map { |_, told| told.values_at("ip", "port").join(":") }.uniq
          quorum = @failures.find { |_, error| error.message.include?("NOQUORUM") }
          if addresses.size > 1
            danger("the sentinels name different primaries: #{addresses.join(", ")}",
                   "wait for the failover to end; SENTINEL RESET on a sentinel that was cut off")
          elsif quorum
            danger("too few sentinels can reach one another to agree on a failover: " \
                   "#{quorum.last.message}", "start the others, or lower the quorum")
          elsif @answers.empty?
            danger("none of them answered: #{@failures.values.first.message}",
                   "check their addresses and credentials")
          end
        end

        # The two settings that make a primary refuse writes when its replicas are silent.
        #
        # @return [Hash{String => Integer, nil}] the values of REPLICAS and LAG (seconds); a value
        #   is nil if this user may not read the setting. Empty if replicas confirm each lock.
        def limits
          return {} if server.store.replicas.positive?

          @limits ||= [REPLICAS, LAG].to_h { |name| [name, server.setting(name)&.to_i] }
        end

        # A primary that is cut off continues to grant locks until it notices that it has no
        # replicas any more. If REPLICAS or LAG is zero, the primary never notices.
        def isolation
          return if alone?

          if limits[REPLICAS]&.zero?
            endless(REPLICAS, "#{REPLICAS} 1 and #{LAG} #{LONGEST_LAG}")
          elsif limits[LAG]&.zero?
            endless(LAG, "#{LAG} #{LONGEST_LAG}")
          end
        end

        def endless(name, settings)
          remedy = "CONFIG SET #{settings} on each server"
          if server.number("replication", "connected_slaves")&.zero?
            remedy = "start its replicas, without which that stops all locks, then #{remedy}"
          end
          danger("#{name} 0: a primary that is cut off goes on granting locks, while the new one " \
                 "grants the same", remedy)
        end

        # Is no replica connected to the primary, and does no sentinel know of a replica?
        def alone? =
          @answers.values.all? { |told| told["num-slaves"].to_i.zero? } &&
            server.number("replication", "connected_slaves").to_i.zero?

        def lone
          return if limits.empty? || !alone?

          advice("the primary has no replica, so the sentinels have nothing to replace it with",
                 "add a replica, then CONFIG SET #{REPLICAS} 1 and #{LAG} #{LONGEST_LAG} on each " \
                 "server; without a replica, that stops all locks")
        end

        def long_lag
          lag = limits[LAG] or return
          return if lag <= LONGEST_LAG

          advice("#{LAG} #{lag}: a primary that is cut off goes on granting locks for #{lag} s",
                 "CONFIG SET #{LAG} #{LONGEST_LAG} on each server")
        end

        def unread
          name, = limits.find { |_, value| value.nil? }
          unknown(name) if name
        end

        def silent
          place, error = @failures.first
          return unless place

          advice("#{place} did not answer: #{error.message}",
                 "start it, or take it out of the URL")
        end

        # The number of sentinels, as the sentinels themselves report it. If their reports differ,
        # this is the smallest number.
        def known = @answers.values.map { |told| told["num-other-sentinels"].to_i + 1 }.min

        def few
          return unless known < LEAST

          advice("#{known}: if one is lost, no majority is left for a failover",
                 "run at least #{LEAST}, on different hosts")
        end

        def outlook
          down = @answers.values.first["down-after-milliseconds"].to_i / 1000.0
          fine("#{known} that agree; they replace a primary that was silent for #{down} s. " \
               "A failover loses the locks that the new primary had not received")
        end
      end
    end
  end
end
