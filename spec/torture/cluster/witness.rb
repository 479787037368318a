# frozen_string_literal: true

require_relative "../sentinel/witness"

module Torture
  module Cluster
    # Judges a history in which slots move, and replicas take over. A move excuses nothing but the
    # order, and pauses; a failover excuses what it does with sentinels.
    class Witness < Sentinel::Witness
      # From the end of the window: nothing tells a holder of the failover before its next renewal.
      LEARNT = 5 * SECOND

      private

      def learnt?(call, failover, moment)
        call.watched && call.entered < failover.over &&
          late_by(call, failover.over, moment, LEARNT).positive?
      end
    end
  end
end
