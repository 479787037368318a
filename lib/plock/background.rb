# frozen_string_literal: true

require_relative "log"

module Plock
  # plock's own Ruby threads.
  #
  # @api private
  module Background
    # How many seconds one call may take while the process ends.
    LAST_S = 0.25

    class << self
      # Starts a thread without the interrupt masks that it would inherit from the caller. With some
      # masks, the thread could not be killed, and would not end with the process.
      #
      # @return [Thread, nil] nil if the process is ending, because Ruby then starts no more
      #   threads
      # @raise [ThreadError] the system cannot create another thread
      def launch(name = nil, &block)
        Thread.new do
          Thread.current.name = name
          # Ruby need not print the exception: it passes SystemExit on to the main thread, and
          # Thread#value raises any other exception
          Thread.current.report_on_exception = false
          Thread.handle_interrupt(Object => :immediate, &block)
        end
      rescue ThreadError
        raise unless over?
      end

      # @return [Boolean] does this thread run a signal handler? Ruby refuses to lock a mutex there.
      def signal_handler?
        refuse_signal_handler
        false
      rescue ThreadError
        true
      end

      # @raise [ThreadError] this thread runs a signal handler
      def refuse_signal_handler = Thread::Mutex.new.synchronize { nil }

      # @return [Boolean] has the main thread ended? The process then ends as soon as the other
      #   threads have ended.
      def over? = !Thread.main.alive?

      # @param seconds [Float] how many seconds a call may take while the process is not ending
      # @return [Float] how many seconds the call may take now
      def at_most(seconds) = over? ? [seconds, LAST_S].min : seconds

      # Runs the block, and logs any exception that it raises, so that the current thread continues.
      # Threads on which other threads depend use this method. Only SystemExit, signals and
      # Thread#kill can then end such a thread.
      #
      # @param what [String] the source of the error, for the log
      def guard(what)
        yield
      rescue SystemExit, SignalException
        raise
      rescue Exception => e # rubocop:disable Lint/RescueException -- the application may raise any
        raise if killed?

        complain(what, e)
      end

      # When a thread is killed, its `ensure` clauses run. If one of them raises, its exception
      # replaces the kill, and a rescue would let the thread live on. Ruby does not kill a thread
      # twice, so the process could never end. So a rescue in a killed thread must raise the
      # exception again.
      #
      # @return [Boolean] has this thread been killed?
      def killed? = Thread.current.status == "aborting"

      private

      def complain(what, error)
        Log.failure(Plock.logger, what, error)
      rescue StandardError
        nil # the log has failed, so nothing can report the error
      end
    end
  end
end
