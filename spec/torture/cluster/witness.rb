# frozen_string_literal: true

require_relative "../sentinel/witness"

module Torture
  module Cluster
    # Judges a history in which slots move and replicas take over. A move excuses failed calls,
    # pauses and a wrong order, and nothing else. A failover excuses what it excuses in
    # Sentinel::Witness.
    class Witness < Sentinel::Witness
      # The longest time from the end of a failover's window until a holder learns that its lease is
      # lost. It may learn of that only at the next renewal.
      LEARNT = 5 * SECOND

      private

      def learnt?(call, failover, moment)
        call.watched && call.entered < failover.over &&
          late_by(call, failover.over, moment, LEARNT).positive?
      end
    end
  end
end
