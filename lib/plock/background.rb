# frozen_string_literal: true

require_relative "log"

module Plock
  # Threads of our own, beside the application's.
  #
  # @api private
  module Background
    class << self
      # A thread inherits the masks of the one that starts it; under some it could not be given up, nor ended with the process.
      #
      # @param name [String, nil] as debuggers show it
      # @param reports [Boolean] does Ruby say what ended it? What does is SystemExit as a rule, which Ruby hands to the main thread,
      #   or what the one hears who asks for the thread's value.
      # @yield on the thread
      # @return [Thread]
      def launch(name = nil, reports: false, &block)
        Thread.new do
          Thread.current.name = name
          Thread.current.report_on_exception = reports
          Thread.handle_interrupt(Object => :immediate, &block)
        end
      end

      # A thread that others depend on goes on, whatever the block raises.
      #
      # @param what [String] raised it, for the log
      # @return [void]
      def guard(what)
        yield
      rescue StandardError, ScriptError, SystemStackError, NoMemoryError => e
        complain(what, e)
      end

      private

      def complain(what, error)
        Log.failure(Plock.logger, what, error)
      rescue StandardError
        nil # nobody can be told
      end
    end
  end
end
