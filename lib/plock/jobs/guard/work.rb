# frozen_string_literal: true

require_relative "../../events"
require_relative "held"
require_relative "key"
require_relative "job_state"

module Plock
  module Guard
    # One guarded job of any framework. A subclass for each framework defines how to reschedule it,
    # its arguments and its log.
    #
    # Its leases are labelled with class and id. The label shows which job holds a key, and lets a
    # job recognise its own earlier run.
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

      # @return [Locking, Plock] the store of its keys; the default store if its class is no longer
      #   guarded
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
      #   @return [Array] as `perform` is given them
      # @!method plain_arguments
      #   @api private
      #   @return [Array] of what JSON knows
      # @!method reschedule(delay)
      #   @api private
      #   @param delay [Float] seconds
      #   @return [Boolean] false: here it cannot be
      # @!method due_again
      #   @api private
      #   @return [Float] the most seconds until it is due again after a failure, if known
      # @!method log(severity, message)
      #   @api private
      #   @return [void]
    end
  end
end
