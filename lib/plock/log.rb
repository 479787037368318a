# frozen_string_literal: true

module Plock
  # Where warnings go that no caller can be given as an exception.
  #
  # @api private
  module Log
    # A logger that fails is the application's, and may raise what it likes; what it was to hear is
    # said on the error stream then.
    #
    # @param logger [#warn, nil] nil: the standard error stream, through Kernel#warn
    # @param message [String]
    # @return [void]
    def self.warn(logger, message)
      logger ? logger.warn("[Plock] #{message}") : Kernel.warn("[Plock] #{message}")
    rescue StandardError, ScriptError => e
      raise unless logger

      Kernel.warn("[Plock] #{message} (and the logger raised #{e.class})")
    end

    # Logs an error of the application's code that has no caller to raise it to.
    #
    # @param logger [#warn, nil]
    # @param where [String]
    # @param error [Exception]
    # @return [void]
    def self.failure(logger, where, error)
      warn(logger, "#{where} raised #{error.class}: #{error.message} (#{error.backtrace&.first})")
    end
  end
end
