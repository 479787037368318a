# frozen_string_literal: true

require_relative "version"
require_relative "cli/exit_status"
require_relative "cli/failure"

module Plock
  # The command `plock`. It loads each file only when it is needed, so that a cron job does not
  # wait for code that it does not use.
  #
  # @api private
  module CLI
    # The purpose of each command. The class of `run` is RunCommand, in cli/run_command.rb.
    COMMANDS = {
      "run" => "hold a key while a command runs",
      "status" => "say who holds a key, and who waits for it",
      "list" => "list the keys that are held",
      "break" => "take a key away from its holder",
      "wait" => "wait until a key is free",
      "secret" => "compare the secret with that of others, or replace it",
      "doctor" => "say what a store can and cannot promise",
      "top" => "show the locks in the terminal, live",
      "web" => "show the locks in a browser"
    }.freeze

    TRACE = 5 # how many lines of the backtrace are shown for a bug in plock
    NO_THREAD = /\Acan't create Thread/ # Ruby's message if the system refuses it a thread
    private_constant :TRACE, :NO_THREAD

    class << self
      # @return [Integer] the exit status
      def run(arguments)
        status = dispatch(arguments.map { |text| utf8(text) })
        $stdout.flush
        status
      rescue Failure => e
        complain(e.message)
        e.status
      rescue Errno::EPIPE
        raise SignalException, "PIPE" # the reader has closed the pipe, as with `| head -1`
      rescue SystemCallError, NoMemoryError => e
        refused(e)
      rescue Interrupt
        # lets SIGINT end the process, without Ruby's backtrace
        raise SignalException, "INT"
      rescue SystemExit, SignalException
        raise
      rescue Exception => e # rubocop:disable Lint/RescueException -- status 1 has another meaning
        ended_by(e)
      end

      # Writes lines to the standard error stream, which may be closed.
      def complain(*lines)
        first, *rest = lines
        $stderr.puts("plock: #{first}", *rest)
      rescue SystemCallError, IOError
        nil # the lines cannot be written anywhere else
      end

      # @raise [UsageError]
      def command(name)
        unless COMMANDS.key?(name)
          raise UsageError.new("there is no command " \
                               "#{name}#{UsageError.suggestion(name, COMMANDS.keys)}", "plock help")
        end
        require_relative "cli/#{name}_command"
        const_get("#{name.capitalize}Command")
      end

      private

      def dispatch(arguments)
        name, *rest = arguments
        case name
        when nil
          raise UsageError.new("which command? #{COMMANDS.keys.join(", ")}", "plock help")
        when "help", "--help", "-h"
          help(rest)
        when "--version", "version"
          $stdout.puts("plock #{VERSION}") || ExitStatus::OK
        when /\A-/
          raise UsageError.new("unknown option #{name}; options stand behind the name of a " \
                               "command", "plock help")
        else
          command(name).new(rest).run
        end
      end

      # @return [Integer] the exit status if the command ends with an exception that none expected
      def ended_by(error)
        # if a signal cuts off RubyGems while it loads a file, it raises errors of its own
        causes = Enumerator.produce(error, &:cause).take_while(&:itself)
        causes.grep(SignalException) { |signal| raise signal }
        return refused(error) if error.is_a?(ThreadError) && NO_THREAD.match?(error.message)

        complain("#{error.class}: #{error.message}", *error.backtrace.first(TRACE)) # a bug in plock
        ExitStatus::SOFTWARE
      end

      def refused(error)
        complain("the system refuses what the command needs: #{error.message}")
        ExitStatus::SYSTEM
      end

      def help(names)
        return command(names.first).new(["--help"]).run if names.any?

        require_relative "cli/help"
        $stdout.puts(Help.text)
        ExitStatus::OK
      end

      # Treats an argument as UTF-8 if it is valid UTF-8. Under cron, Ruby would take it for ASCII,
      # and a label could not contain an umlaut.
      def utf8(text)
        copy = text.dup.force_encoding(Encoding::UTF_8)
        copy.valid_encoding? ? copy : text
      end
    end
  end
end
