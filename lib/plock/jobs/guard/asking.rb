# frozen_string_literal: true

require_relative "../../clock"
require_relative "collision"
require_relative "errors"
require_relative "held"

module Plock
  module Guard
    # Asks for a job's key, and handles a refusal.
    #
    # @api private
    module Asking
      # Attempts in a row, if the holder is gone each time before it could be named.
      ATTEMPTS = 3

      private_constant :ATTEMPTS

      private

      # @yieldparam entered [#call] the caller calls it once it has the lease: later errors are the
      #   job's own
      # @return [Exception, nil] why the key was refused
      def refusal
        entered = false
        yield -> { entered = true }
        nil
      rescue TimeoutError, LeaseLost, ArgumentError, *FAILURES => e
        raise if entered

        e
      end

      # Like {#refusal}, but tries again if the key has become free.
      #
      # @yieldparam entered [#call]
      # @return [Array(Exception, Status), nil]
      def refusal_for_good(&ask)
        ATTEMPTS.times do |attempt|
          error = refusal(&ask) or return
          return [error, nil] unless error.is_a?(TimeoutError)

          status = error.status || look
          return [error, status] if attempt + 1 == ATTEMPTS || status.nil? || status.held?
        end
      end

      def look
        Held.status(@work.store, @work.key, @work.guard.limit)
      rescue *FAILURES
        nil
      end

      # The store could not be asked. A job without its key is for an outage, which ends by itself:
      # a wrong password, for example, would turn all locks off.
      #
      # @raise [Error] unless the guard lets the job go without its key
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
