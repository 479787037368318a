# frozen_string_literal: true

require_relative "check"

module Plock
  module CLI
    module Doctor
      # Compares the server's time with this host's. Leases do not depend on the difference,
      # because each side measures time spans with its own clock.
      class Clocks < Check
        NAME = "clock"
        APART = 1.0 # seconds
        private_constant :APART

        # @return [Float, nil] seconds by which the server's clock is ahead of this host's
        def self.offset(server)
          asked = Clock.wall
          time = server.try("TIME") or return
          answered = Clock.wall
          time[0].to_i + (time[1].to_i / 1e6) - ((asked + answered) / 2)
        end

        def look
          apart = Clocks.offset(server) or return unknown("the time")
          return fine(format("%+.3f s against this host's", apart)) if apart.abs <= APART

          advice(
            format(
              "%+.1f s against this host's: the times that status shows are the server's", apart
            ),
            "run NTP on both. Leases do not depend on it"
          )
        end
      end

      # Checks how many descriptors this process may open, and how many clients the server accepts.
      class Descriptors < Check
        NAME = "descriptors"
        FEW = 256 # fewer may not suffice for the store's connections and the rest of the program
        FULL = 0.8
        private_constant :FEW, :FULL

        def look
          here = Process.getrlimit(:NOFILE).first
          if here < FEW
            return advice(
              "this process may open #{here}: a busy program's connections will not find any",
              "raise ulimit -n to 1024 or more"
            )
          end

          clients, most =
            %w[connected_clients maxclients].map { |name| server.number("clients", name) }
          return fine("#{limit(here)} here") unless clients && most
          if clients < most * FULL
            return fine("#{limit(here)} here, #{clients} of #{most} clients there")
          end

          advice("#{clients} of #{most} clients are connected to the server: soon it refuses more",
                 "raise maxclients, or lower pool_size")
        end

        private

        def limit(number) = number == Process::RLIM_INFINITY ? "no limit" : number.to_s
      end
    end
  end
end
