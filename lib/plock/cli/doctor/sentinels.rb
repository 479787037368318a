# frozen_string_literal: true

require_relative "check"

module Plock
  module CLI
    module Doctor
      # Whether the sentinels can replace a primary, and what a failover may lose.
      class Sentinels < Check
        NAME = "sentinels"
        LEAST = 3 # the loss of one then leaves a majority
        private_constant :LEAST

        def look
          told = server.sentinels
          return fine("none, and none needed: the URL names the server") if told.empty?

          @failures =
            told
              .transform_values { |answer| Error === answer ? answer : answer["ckquorum"] }
              .select { |_, outcome| Error === outcome }
          @answers = told.except(*@failures.keys)
          trouble || isolation || (@failures.any? ? silent : outlook)
        end

        private

        # The findings that endanger a failover, the gravest first.
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

        # A primary that is cut off goes on until it notices that it has no replicas any more.
        def isolation
          return if server.store.replicas.positive?
          return unless server.setting("min-replicas-to-write").to_i.zero?

          danger("min-replicas-to-write 0: a primary that is cut off goes on granting locks, " \
                 "while the new one grants the same",
                 "CONFIG SET min-replicas-to-write 1 and min-replicas-max-lag 10 on each server")
        end

        def silent
          place, error = @failures.first
          advice("#{place} did not answer: #{error.message}",
                 "start it, or take it out of the URL")
        end

        def outlook
          known = @answers.values.map { |told| told["num-other-sentinels"].to_i + 1 }.min
          if known < LEAST
            return advice("#{known}: if one is lost, no majority is left for a failover",
                          "run at least #{LEAST}, on different hosts")
          end
          down = @answers.values.first["down-after-milliseconds"].to_i / 1000.0
          fine("#{known} that agree; they replace a primary that was silent for #{down} s. " \
               "A failover loses the locks that the new primary had not received")
        end
      end
    end
  end
end
