# frozen_string_literal: true

require_relative "../../events"
require_relative "held"
require_relative "key"
require_relative "job_state"

module Plock
  module Guard
    # One guarded job, whatever queues it. A front's own class says how it is rescheduled, what its
    # arguments are, and where its log is.
    #
    # Its leases are labelled with class and id, so that everybody sees which job has a key, and the
    # job itself knows when it is its own earlier run that has it.
    #
    # @api private
    class Work
      LABEL_MAX_BYTES = Locking::Arguments::LABEL_MAX_BYTES
      ID_MAX_BYTES = 64

      # @return [Options, nil] nil: its class is not guarded any more
      attr_reader :guard
      # @return [JobState]
      attr_reader :ticket
      # @return [String] of the class
      attr_reader :name
      # @return [String]
      attr_reader :id

      def initialize(guard, ticket, name, id)
        @guard = guard
        @ticket = ticket
        @name = name.to_s
        @id = id.to_s
      end

      # @return [String] class and id; of a class with a long name the end
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

      # @return [Locking, Plock] where its keys are; of a class that is not guarded any more, the
      #   default store
      def store
        @guard ? @guard.store : Plock
      end

      # @return [String] of what keeps two runs of this job apart that would use one and the same
      #   lease
      def run_key
        "job run:#{@id}"
      end

      # @param due [Float] seconds until it is due
      # @return [Float] seconds for which it may have its key in the queue
      def queued_span(due)
        [@guard.queued_ttl + due, Held::MOST].min
      end

      # Tells whoever listens.
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
      #   @return [Array] as `perform` is given them
      # @!method plain_arguments
      #   @return [Array] of what JSON knows
      # @!method reschedule(delay)
      #   @param delay [Float] seconds
      #   @return [Boolean] false: here it cannot be
      # @!method due_again
      #   @return [Float] seconds until it is due again after it has failed, at most, as far as that is known
      # @!method log(severity, message)
      #   @return [void]
    end
  end
end
