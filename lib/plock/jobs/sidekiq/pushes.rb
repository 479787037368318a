# frozen_string_literal: true

require_relative "../guard/held"

module Plock
  module Sidekiq
    # The leases that one call of Sidekiq::Client acquired for the jobs that it pushes. If a job
    # does not reach Redis, its lease is released. For example, another middleware may stop the
    # job, JSON may be unable to represent its arguments, or Redis may be unavailable.
    #
    # @api private
    class Pushes
      CURRENT = :plock_sidekiq_pushes
      private_constant :CURRENT

      # Prepended to Sidekiq::Client.
      module Client
        # A job that has a `created_at` was pushed before, because its first push adds this field.
        def push(item)
          Pushes.around(item.is_a?(Hash) && item.key?("created_at")) { super }
        end

        def push_bulk(items)
          Pushes.around(false) { super }
        end

        private

        # Sidekiq looks only at the first of several jobs to decide whether all are scheduled. So
        # scheduled jobs and immediate jobs must be pushed separately.
        def raw_push(payloads)
          pushes = Pushes.current
          return super unless pushes&.any?

          scheduled, immediate = payloads.partition { |item| item.key?("at") }
          [immediate, scheduled].each do |part|
            next if part.empty?

            super(part)
            pushes.arrived(part)
          end
          true
        end
      end

      class << self
        def current = Thread.current[CURRENT]

        def around(again)
          outer = current
          pushes = Thread.current[CURRENT] = new(again)
          yield
        ensure
          Interrupts.complete do
            Thread.current[CURRENT] = outer
            pushes&.close
          end
        end
      end

      # @return [Boolean] were the jobs pushed before, so that they cannot be refused any more?
      attr_reader :again

      def initialize(again)
        @again = again
        @works = {}
      end

      # @param work [Work] a job that is about to receive a lease, or to be rescheduled
      def note(work)
        @works[work.id] = work
      end

      def any? = !@works.empty?

      def arrived(items)
        items.each { |item| @works.delete(item["jid"]) }
      end

      # Releases the leases of jobs that did not reach Redis. If the store fails once, the other
      # leases are left to expire.
      def close
        left = @works.each_value.select { |work| work.ticket.lease }
        left.each { |work| Guard::Held.give_back(work.store, work.ticket, 0.0) }
      rescue Error => e
        ::Sidekiq.logger.warn("plock: #{left.map(&:label).join(", ")} not pushed; their keys " \
                              "stay taken until their time in the queue is over: " \
                              "#{e.class}: #{e.message}")
      end
    end
  end
end
