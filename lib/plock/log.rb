# frozen_string_literal: true

require_relative "plain_text"

module Plock
  # Logs warnings that no caller can receive as an exception.
  #
  # @api private
  module Log
    # Logs a warning. The logger belongs to the application, and may raise anything. In that case
    # the message goes to the standard error stream.
    #
    # @param logger [#warn, nil] nil: in the main Ractor, the logger of {Plock}; otherwise, or if
    #   {Plock} has none, the standard error stream, through Kernel#warn
    def self.warn(logger, message)
      logger ||= Plock.logger if Events.here?
      logger ? logger.warn("[Plock] #{message}") : complain(message)
    rescue StandardError, ScriptError => e
      complain("#{message} (and the logger raised #{e.class})")
    end

    # Writes to the standard error stream. This fails if the stream is a pipe that no process reads
    # any more.
    def self.complain(message)
      Kernel.warn("[Plock] #{message}")
    rescue StandardError, ScriptError
      nil # there is no other place to report it
    end
    private_class_method :complain

    # Logs an error that the application's code raised, and that plock cannot pass on to a caller.
    #
    # @param logger [#warn, nil] as for {warn}
    # @param where [String] what raised the error, in words for the message
    def self.failure(logger, where, error)
      warn(logger, "#{where} raised #{error.class}: #{description(error)}")
    end

    # @return [String] in UTF-8, because the message and the path may have different encodings
    def self.description(error)
      format("%s (%s)", *[message_of(error), error.backtrace&.first].map { PlainText.utf8(_1) })
    end
    private_class_method :description

    # @return [String] the error's message; if its method `message` raises, a text that says so
    def self.message_of(error)
      error.message
    rescue StandardError, ScriptError => e
      "its message cannot be shown, which raised #{e.class}"
    end
  end
end
