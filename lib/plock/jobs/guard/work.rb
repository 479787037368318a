# frozen_string_literal: true

require_relative "../../events"
require_relative "held"
require_relative "key"
require_relative "job_state"

module Plock
  module Guard
    # One guarded job of any framework. Each framework has a subclass, which defines the job's
    # arguments, its log, and how it is rescheduled.
    #
    # The label of a job's leases contains the job's class and id. The label shows which job holds
    # a key, and lets a job recognise its own earlier run.
    #
    # @api private
    class Work
      LABEL_MAX_BYTES = Locking::Arguments::LABEL_MAX_BYTES
      ID_MAX_BYTES = 64

      # @return [Options, nil] nil if the job's class is no longer guarded
      attr_reader :guard
      # @return [JobState]
      attr_reader :ticket
      # @return [String] the name of the job's class
      attr_reader :name
      # @return [String]
      attr_reader :id

      def initialize(guard, ticket, name, id)
        @guard = guard
        @ticket = ticket
        @name = name.to_s
        @id = id.to_s
      end

      # @return [String] the job's class and id; the beginning of a long class name is cut off
      def label
        @label ||= begin
          id = @id.bytesize > ID_MAX_BYTES ? Plock.digest(@id) : @id
          room = LABEL_MAX_BYTES - id.bytesize - 1
          from = [@name.bytesize - room, 0].max
          "#{@name.byteslice(from, room).scrub("")} #{id}".strip
        end
      end

      # @return [String, Symbol]
      # @raise [InvalidKey]
      def key
        @key ||= Key.of(@guard, @name) { |plain| plain ? plain_arguments : arguments }
      end

      # @return [Locking, Plock] the store of the job's keys; the default store if the job's class
      #   is no longer guarded
      def store = @guard ? @guard.store : Plock

      # @return [String] the key of the lock that keeps two runs of this job from using the same
      #   lease at once
      def run_key = "job run:#{@id}"

      # @param due [Float] seconds until the job is due
      # @return [Float] seconds for which the job may hold its key in the queue
      def queued_span(due) = [@guard.queued_ttl + due, Held::MOST].min

      # Emits an event.
      #
      # @param event [Symbol]
      # @param duration [Float] seconds
      def tell(event, duration, **details)
        return unless Events.listening

        Events.tell(
          event, duration, Held.store_key(store, key, @guard.limit), label, job: @name, job_id: @id,
          **details
        )
      end

      # @!method arguments
      #   @api private
      #   @return [Array] the arguments that `perform` receives
      # @!method plain_arguments
      #   @api private
      #   @return [Array] the same arguments, as values that JSON can represent
      # @!method reschedule(delay)
      #   @api private
      #   @param delay [Float] seconds
      #   @return [Boolean] false if the job cannot be rescheduled here
      # @!method due_again
      #   @api private
      #   @return [Float] the longest time in seconds until the job is due again, if it fails; 0.0
      #     if this is not known
      # @!method log(severity, message)
      #   @api private
      #   @return [void]
    end
  end
end
