# frozen_string_literal: true

module Plock
  module Guard
    # The guard's state for one job, which the code calls the job's ticket. The queue stores it in
    # the job. So each process that runs, kills or deletes the job knows the job's lease, even if
    # the job's class is gone or renamed.
    #
    # The state contains the dump of the lease from the push ({Lease#dump}). A queue may push the
    # job back with this dump, as Sidekiq does for a retry and at a shutdown. {Run} describes how
    # the dump becomes valid again. The dump gives access to the lease, so it is never shown.
    #
    # @api private
    class JobState
      # The name of the state in a job's data in the queue.
      NAME = "plock"

      # @return [String, nil] the value of {Lease#dump}
      attr_accessor :lease
      # @return [Float, nil] the earliest time at which the key may become free, however the job
      #   ends; in seconds since 1970
      attr_accessor :keep_until
      # @return [Integer] number of conflicts so far
      attr_accessor :conflicts
      # @return [Boolean] was the job postponed at its push, so that it has no lease yet?
      attr_accessor :put_off

      # The next two attributes are not stored with the job.

      # @return [Float, nil] seconds until the job is due again, if it was queued again
      attr_accessor :passed_on
      # @return [Boolean] has a run of the job handed its lease back for the next run?
      attr_accessor :left

      # @param facts [Hash, nil] the result of {#to_h}; any other value counts as nil
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
      # @return [Float] for how many more seconds the key must stay taken; at most `most`, even if
      #   a clock has jumped
      def left_to_keep(most)
        return 0.0 unless @keep_until

        (@keep_until - Clock.wall).clamp(0.0, most)
      end

      # @return [Boolean] is there nothing to store in the job?
      def empty? = @lease.nil? && @conflicts.zero? && !@put_off

      # @return [Hash{String => Object}] values that JSON can represent
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
