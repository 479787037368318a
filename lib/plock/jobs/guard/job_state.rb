# frozen_string_literal: true

module Plock
  module Guard
    # What a guard knows of one job, beyond its class: it travels with the job, so that whoever
    # runs, buries or deletes it knows what it holds, even where its class is gone or has another
    # name by now.
    #
    # The lease is in it as {Lease#dump} wrote it when the job was pushed. A run adopts it, which is
    # possible once, and hands it back under the token that the dump names when the job is to be run
    # again. So the dump stays right through all runs, and a queue may push the very text back, as
    # Sidekiq does for a retry and at a shutdown. Whoever has it has the lease: it is never shown.
    #
    # @api private
    class JobState
      # Its name among what a queue keeps of a job.
      NAME = "plock"

      # @return [String, nil] of {Lease#dump}
      attr_accessor :lease
      # @return [Float, nil] seconds since 1970, until when the key is to stay taken, whatever
      #   becomes of the job
      attr_accessor :keep_until
      # @return [Integer] conflicts so far
      attr_accessor :conflicts
      # @return [Boolean] was the job put off when it was pushed, so that it has still to get its
      #   lease?
      attr_accessor :put_off

      # Of this process only:

      # @return [Float, nil] seconds after which the job is due again, where it has been queued
      #   again
      attr_accessor :passed_on
      # @return [Boolean] has a run of the job left its lease to the next one?
      attr_accessor :left

      # @param facts [Hash, nil] as {to_h} wrote it; anything else is as good as nothing
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
      # @return [Float] seconds that the key is still to stay taken; never more than that, wherever
      #   clocks have jumped to
      def left_to_keep(most)
        return 0.0 unless @keep_until

        (@keep_until - Process.clock_gettime(Process::CLOCK_REALTIME)).clamp(0.0, most)
      end

      # @return [Boolean] is there nothing to take along?
      def empty?
        @lease.nil? && @conflicts.zero? && !@put_off
      end

      # @return [Hash{String => Object}] of what JSON knows
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
