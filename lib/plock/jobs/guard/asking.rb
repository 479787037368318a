# frozen_string_literal: true

require_relative "../../clock"
require_relative "collision"
require_relative "errors"

module Plock
  module Guard
    # Asks for a job's key, and handles a refusal.
    #
    # @api private
    module Asking
      # The maximum number of attempts in a row. A refused attempt is repeated if the key is already
      # free when plock asks for its holder.
      ATTEMPTS = 3

      private_constant :ATTEMPTS

      private

      # @yieldparam entered [#call] the block calls this as soon as it has the lease. Later errors
      #   are the job's own, and are raised.
      # @return [Exception, nil] why the key was refused; nil if it was granted
      def refusal
        entered = false
        yield -> { entered = true }
        nil
      rescue TimeoutError, LeaseLost, ArgumentError, *FAILURES => e
        raise if entered

        e
      end

      # Like {#refusal}, but tries again if the key has become free in the meantime.
      #
      # @return [Array(Exception, Status), nil] why the key was refused, and the key's status if it
      #   is known; nil if the key was granted
      def refusal_for_good(&ask)
        ATTEMPTS.times do |attempt|
          error = refusal(&ask) or return
          return [error, nil] unless error.is_a?(TimeoutError)

          status = error.status || look
          return [error, status] if attempt + 1 == ATTEMPTS || status.nil? || status.held?
        end
      end

      def look
        @work.status
      rescue *FAILURES
        nil
      end

      # Handles a failure of the store. `on_unavailable: :proceed` lets a job continue without its
      # key, but only during an outage, which ends by itself. A wrong password, for example, does
      # not count as an outage, because every job would then run unguarded.
      #
      # @raise [Error] unless the job may continue without its key
      def go_without(error)
        unless @work.guard.proceed? && UnavailableError === error
          @work.log(:error, "#{@work.label} cannot have its key: #{error.class}: #{error.message}")
          raise error
        end

        @work.log(:warn, "#{@work.label} goes unguarded: #{error.class}: #{error.message}")
        @work.tell(:job_unguarded, Clock.now - @began, error: error.class.name)
      end
    end
  end
end
