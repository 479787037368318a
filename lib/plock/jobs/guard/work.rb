# frozen_string_literal: true

require "json"
require_relative "../../events"
require_relative "errors"
require_relative "held"
require_relative "job_state"

module Plock
  module Guard
    # One guarded job of any framework. Each framework has a subclass, which defines the job's
    # arguments and its log.
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
      # @return [String] the name of the job's class
      attr_reader :name
      attr_reader :ticket, :id

      # @param rescheduler [#call, nil] receives the job and the delay in seconds; returns false if
      #   the job cannot be rescheduled. nil means that no job can be rescheduled here.
      def initialize(guard, ticket, name, id, rescheduler)
        @guard = guard
        @ticket = ticket
        @name = name.to_s
        @id = id.to_s
        @rescheduler = rescheduler
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

      # @raise [InvalidKey]
      def key
        @key ||=
          case @guard.key
          when nil then "job:#{@name}:#{Plock.digest(canonical(plain_arguments))}"
          when String then @guard.key
          else check(answer)
          end
      end

      # @return [Locking, Plock] the store of the job's keys; the default store if the job's class
      #   is no longer guarded
      def store = @guard ? @guard.store : Plock

      # Acquires the key. With a limit of 1, the key is a plain lock, so callers outside of jobs can
      # acquire the same lock.
      #
      # @param options [Hash] as for {Locking#acquire}
      def acquire(**options, &block)
        if @guard.limit == 1
          store.acquire(key, label: label, **options, &block)
        else
          semaphore.acquire(label: label, **options, &block)
        end
      end

      def status = @guard.limit == 1 ? store.status(key) : semaphore.status

      # @return [String] the key of the lock that keeps two runs of this job from using the same
      #   lease at once
      def run_key = "job run:#{@id}"

      # @param due [Float] seconds until the job is due
      # @return [Float] seconds for which the job may hold its key in the queue
      def queued_span(due) = [@guard.queued_ttl + due, Held::MOST].min

      # @param delay [Float] seconds
      # @return [Boolean] false if the job cannot be rescheduled here
      def reschedule(delay) = @rescheduler ? @rescheduler.call(self, delay) : false

      # Emits an event.
      #
      # @param duration [Float] seconds
      def tell(event, duration, **details)
        return unless Events.listening

        Events.tell(event, duration, store_key, label, job: @name, job_id: @id, **details)
      end

      # @!method arguments
      #   @api private
      #   @return [Array] the arguments that `perform` receives
      # @!method plain_arguments
      #   @api private
      #   @return [Array] the same arguments, as values that JSON can represent
      # @!method due_again
      #   @api private
      #   @return [Float] the longest time in seconds until the job is due again, if it fails; 0.0
      #     if this is not known
      # @!method log(severity, message)
      #   @api private

      private

      def semaphore = store.semaphore(key, permits: @guard.limit)

      def store_key
        kind = @guard.limit == 1 ? Locking::Kind::LOCK : Locking::Kind::SEMAPHORE
        Held.opened(store).config.store_key(key, kind)
      end

      # Returns the same text for equal values. The text depends neither on the order of a Hash
      # nor on the version of a JSON library.
      def canonical(value)
        case value
        when Hash
          pairs = value.map { |name, item| [name.to_s, item] }.sort_by(&:first)
          "{#{pairs.map { |name, item| "#{JSON.generate(name)}:#{canonical(item)}" }.join(",")}}"
        when Array then "[#{value.map { |item| canonical(item) }.join(",")}]"
        when Float, Integer then value.to_s
        else JSON.generate(value)
        end
      end

      def answer
        @guard.key.call(*arguments)
      rescue StandardError => e # the application's code, which may raise any error
        raise InvalidKey.new("the key: of #{@name} raised #{e.class}: #{e.message}", code: :bad_key)
      end

      def check(key)
        Locking::Arguments.key(key)
        key
      rescue ArgumentError
        raise InvalidKey.new(
          "the key: of #{@name} answered #{key.inspect[0, 100]}: it must be a String or " \
            "Symbol of 1 to #{Locking::Arguments::KEY_MAX_BYTES} bytes, such as \"import:42\"",
          code: :bad_key
        )
      end
    end
  end
end
