# frozen_string_literal: true

require_relative "check"

module Plock
  module CLI
    module Doctor
      # Checks whether the keys are hashed with a secret, so that their names cannot be guessed from
      # the store. Also checks whether all clients of the namespace use the same secret.
      class Secret < Check
        NAME = "secret"

        REMEDY = "correct the secret that is wrong; or stop all processes, run plock secret " \
                 "--replace (in Rails bin/rails plock:secret[replace]), and start them"

        def look
          others = store.other_fingerprint
          return differ(others) if others

          unless config.secret?
            return advice("keys are hashed without a secret: a client that can read the store " \
                          "can guess them",
                          "set #{Locking::StoreConfig::SECRET_VARIABLE} to the same 16 bytes " \
                          "or more in all processes that share locks, as openssl rand -hex 32 " \
                          "prints them")
          end
          return fine("keys are hashed with a secret") if store.can?(:compares_secrets)

          advice(
            "keys are hashed with a secret, which this store cannot compare with that of others",
            "see that all processes have the same one"
          )
        rescue Error => e
          Finding.new(
            NAME, :unknown, "could not be compared with that of others: #{e.message}",
            "see the checks of the server"
          )
        end

        private

        def store = server.store

        def config = store.config

        def differ(others)
          danger("others use another secret in #{config.described} (#{others}) than this " \
                 "process (#{config.described_secret}): they would lock different keys", REMEDY)
        end
      end
    end
  end
end
