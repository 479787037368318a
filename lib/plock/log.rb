# frozen_string_literal: true

module Plock
  # Warnings that no caller can get as an exception.
  #
  # @api private
  module Log
    # The logger is the application's, and may raise anything. The message then goes to the standard
    # error stream.
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
      warn(logger, "#{where} raised #{error.class}: #{description(error)}")
    end

    # @return [String] in UTF-8: the message and the path may have different encodings
    def self.description(error)
      parts = [error.message, error.backtrace&.first].map do |part|
        part.to_s.dup.force_encoding(Encoding::UTF_8).scrub
      end
      format("%s (%s)", *parts)
    end
    private_class_method :description
  end
end
