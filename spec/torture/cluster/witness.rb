# frozen_string_literal: true

require_relative "../sentinel/witness"

module Torture
  module Cluster
    # Judges a history in which slots move and replicas take over. A move excuses only a wrong
    # order and pauses. A failover excuses the same as a failover with sentinels.
    class Witness < Sentinel::Witness
      # from the end of the window: a holder learns of the failover only at its next renewal
      LEARNT = 5 * SECOND

      private

      def learnt?(call, failover, moment)
        call.watched && call.entered < failover.over &&
          late_by(call, failover.over, moment, LEARNT).positive?
      end
    end
  end
end
