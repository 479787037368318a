# frozen_string_literal: true

require_relative "../guard/work"

module Plock
  module Sidekiq
    # A Sidekiq job.
    #
    # @api private
    class Work < Guard::Work
      # The constants, in seconds, of Sidekiq's formula for the delay before a retry
      # (Sidekiq::JobRetry). {#due_again} uses them to compute the longest delay.
      FIRST_RETRY = 15
      RETRY_JITTER = 10
      private_constant :FIRST_RETRY, :RETRY_JITTER

      # @param item [Hash] Sidekiq's data of the job
      # @param name [String] the name of the job's class
      # @param rescheduler [#call, nil] as for {Guard::Work#initialize}
      def initialize(guard, item, name, rescheduler)
        ticket = Guard::JobState.read(item[Guard::JobState::NAME])
        super(guard, ticket, name, item["jid"], rescheduler)
        @item = item
      end

      # @raise [JSON::JSONError] the arguments cannot be written as JSON
      def arguments
        @arguments ||= ::Sidekiq.load_json(::Sidekiq.dump_json(@item["args"]))
      end
      alias plain_arguments arguments

      # Writes the ticket into the job.
      def stamp
        if ticket.empty? then @item.delete(Guard::JobState::NAME)
        else @item[Guard::JobState::NAME] = ticket.to_h
        end
      end

      # Reschedules the job.
      #
      # @param time [Float] seconds since 1970; a job that is already scheduled for a later time
      #   keeps that time
      def schedule_for(time)
        @item["at"] = [@item["at"], time].compact.max
        true
      end

      # @param time [Float] seconds since 1970
      # @return [Hash] the payload that makes Sidekiq run this job at that time
      def copy_for(time)
        stamp
        @item.merge("at" => time)
      end

      def due_again
        return 0.0 unless @item["retry"]

        count = @item["retry_count"] ? @item["retry_count"] + 1 : 0
        (count**4) + FIRST_RETRY + (RETRY_JITTER * (count + 1.0))
      end

      def log(severity, message)
        ::Sidekiq::Context.with(class: name, jid: id) do
          ::Sidekiq.logger.public_send(severity, "plock: #{message}")
        end
      end
    end
  end
end
