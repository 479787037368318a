# frozen_string_literal: true

require_relative "check"

module Plock
  module CLI
    module Doctor
      # Replaces {Server} for a store that answers only questions about locks. Such a store is in a
      # file of this host, in a database, in memcached, or in memory.
      # The doctor cannot ask it about its server, so `place` and all numbers are nil.
      Elsewhere = Struct.new(:store, :place) do
        def number(_section, _name) = nil
      end

      # Reports that plock cannot make some checks on this store.
      class Unseen < Check
        NAME = "server"
        LEFT_OUT = "its version, persistence, failover, eviction, rights, encryption and clock"
        private_constant :LEFT_OUT

        def look
          if server.store.is_a?(Testing::MemoryStore)
            return danger("locks in this process's memory exclude no other process",
                          "outside of tests, use a store that processes share")
          end

          Finding.new(NAME, :unknown, "not looked at here: #{LEFT_OUT}",
                      "see docs/stores.md for this store, and how its server is set up")
        end
      end
    end
  end
end
