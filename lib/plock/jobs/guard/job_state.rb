# frozen_string_literal: true

module Plock
  module Guard
    # The guard's state of one job. It travels with the job, so that each process that runs, kills
    # or deletes the job knows its leases, even if the class is gone or renamed.
    #
    # It contains the dump of the lease from the push ({Lease#dump}). A run adopts the lease, which
    # is possible once. If the job must run again, the run hands the lease back under the token in
    # the dump. The dump therefore stays valid through all runs, and a queue may push the job's
    # text back unchanged, as Sidekiq does for a retry and at a shutdown. The dump gives access to
    # the lease, so it is never shown.
    #
    # @api private
    class JobState
      # Its name in the data that a queue keeps of a job.
      NAME = "plock"

      # @return [String, nil] the value of {Lease#dump}
      attr_accessor :lease
      # @return [Float, nil] seconds since 1970, until when the key must stay taken, whatever the
      #   outcome of the job
      attr_accessor :keep_until
      # @return [Integer] conflicts so far
      attr_accessor :conflicts
      # @return [Boolean] was the job postponed at its push, so that it has no lease yet?
      attr_accessor :put_off

      # These two are not stored with the job:

      # @return [Float, nil] seconds until the job is due again, if it was queued again
      attr_accessor :passed_on
      # @return [Boolean] has a run of the job left its lease to the next one?
      attr_accessor :left

      # @param facts [Hash, nil] as {to_h} wrote it; any other value counts as nil
      # @return [JobState]
      def self.read(facts)
        ticket = new
        return ticket unless facts.is_a?(Hash)

        lease, keep_until, conflicts, put_off =
          facts.values_at("lease", "keep_until", "conflicts", "put_off")
        ticket.lease = lease if lease.is_a?(String)
        ticket.keep_until = keep_until.to_f if keep_until.is_a?(Numeric)
        ticket.conflicts = conflicts if conflicts.is_a?(Integer)
        ticket.put_off = put_off == true
        ticket
      end

      def initialize
        @conflicts = 0
        @lease = @keep_until = @passed_on = nil
        @put_off = @left = false
      end

      # @param most [Float] seconds
      # @return [Float] seconds that the key must still stay taken; at most `most`, even if a clock
      #   has jumped
      def left_to_keep(most)
        return 0.0 unless @keep_until

        (@keep_until - Clock.wall).clamp(0.0, most)
      end

      # @return [Boolean] is there nothing to store in the job?
      def empty? = @lease.nil? && @conflicts.zero? && !@put_off

      # @return [Hash{String => Object}] values that JSON knows
      def to_h
        {
          "lease" => @lease, "keep_until" => @keep_until,
          "conflicts" => (@conflicts if @conflicts.positive?), "put_off" => (true if @put_off)
        }.compact
      end

      # @return [String] without the lease
      def inspect
        "#<#{self.class} #{"with a lease, " if @lease}#{@conflicts} conflicts>"
      end
    end
  end
end
