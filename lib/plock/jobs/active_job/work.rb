# frozen_string_literal: true

require_relative "../guard/work"
require_relative "adapter"

module Plock
  module ActiveJob
    # An ActiveJob job.
    #
    # @api private
    class Work < Guard::Work
      # ActiveJob stores a list of a Hash's keys under each of these names. The order of the list
      # has no meaning, so {#plain_arguments} sorts it.
      NAMES = %w[_aj_symbol_keys _aj_ruby2_keywords].freeze
      private_constant :NAMES

      # @param rescheduler [#call, nil] as for {Guard::Work#initialize}
      def initialize(job, rescheduler: nil)
        super(job.class.plock_guard, job.plock_ticket, job.class.name, job.job_id, rescheduler)
        @job = job
      end

      def arguments = @job.arguments

      # @return [Array] the serialized arguments, in which global ids replace records
      def plain_arguments = in_order(::ActiveJob::Arguments.serialize(@job.arguments))

      def due_again = ticket.passed_on || 0.0

      def log(severity, message)
        ::ActiveJob::Base.logger&.public_send(severity, "plock: #{message}")
      end

      private

      def in_order(value)
        case value
        when Array
          value.map { |item| in_order(item) }
        when Hash
          value.to_h { |name, item| [name, NAMES.include?(name) ? item.sort : in_order(item)] }
        else
          value
        end
      end
    end
  end
end
