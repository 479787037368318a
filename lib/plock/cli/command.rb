# frozen_string_literal: true

require_relative "../cli"
require_relative "../errors"
require_relative "../plain_text"

module Plock
  module CLI
    # The logger of the command's store. It prints the library's warnings in the command's form.
    module Reporter
      def self.warn(message) = CLI.complain(message.delete_prefix("[Plock] "))
    end

    # The common part of all commands: options and their errors, the store, and the output.
    #
    # A subclass has NAME, USAGE and DESCRIPTION, adds its options in {#define}, and does its work
    # in {#call}.
    class Command
      OUTAGE = 3_600.0 # seconds; no store accepts a longer unavailable_timeout
      AWAY_S = 0.05 # seconds between two checks for a missing folder
      REFUSALS = %i[descriptors no_memory].freeze # codes of errors for which the system is to blame
      private_constant :OUTAGE, :AWAY_S, :REFUSALS

      # @param arguments [Array<String>] the words after the command's name
      def initialize(arguments)
        # a key may be any bytes, but a pattern matches only valid text
        @arguments = arguments.map { |word| word.valid_encoding? ? word : word.b }
      end

      # @return [Integer] the exit status
      # @raise [Failure]
      def run
        operands = operands_alone || parse_options or return ExitStatus::OK
        require "plock"
        GC.enable # exe/plock has disabled it
        take(operands)
        call
      rescue ConfigurationError => e
        raise usage(as_option(e)) if e.code == :bad_config

        raise Failure.new(e.message, ExitStatus::USAGE)
      rescue ArgumentError => e
        raise usage(as_option(e))
      rescue Error => e
        refused = REFUSALS.include?(e.code)
        raise Failure.new(e.message, refused ? ExitStatus::SYSTEM : ExitStatus::UNAVAILABLE)
      end

      private

      # If the message begins with a keyword argument that is also an option of the command, names
      # the option instead. Keeps any other name, because it names a setting in the URL or in the
      # configuration file.
      def as_option(error)
        error.message.sub(/\A([a-z_]+):/) do |name|
          option = "--#{$1.tr("_", "-")}"
          long_options.include?(option) ? option : name
        end
      end

      # --- options ---

      # Loading OptionParser takes a third of the startup time, so it is loaded only if there are
      # options.
      #
      # @return [Array<String>, nil] nil: OptionParser must read them
      def operands_alone
        mark = @arguments.index("--")
        words = @arguments.first(mark || @arguments.size)
        return if words.any? { |word| word.start_with?("-") } || (mark && words.size != 1)

        words + @arguments.drop(words.size + 1)
      end

      # @return [Array<String>, nil] the operands; nil: the user asked for help, which was printed
      def parse_options
        operands = read(parser)
        return operands unless @helped

        $stdout.puts(parser.help)
        nil
      rescue OptionParser::ParseError => e
        raise usage(explain(e))
      end

      def parser
        require "optparse"
        @parser ||=
          OptionParser.new("Usage: plock #{self.class::NAME} #{self.class::USAGE}", 22) do |options|
            options.program_name = "plock"
            options.version = VERSION
            options.separator("\n#{self.class::DESCRIPTION}\nOptions:")
            define(options)
            options.on(
              "--store URL", "the store; by default $PLOCK_URL, else config/plock.yml, else local:"
            ) { |text| @url = text }
            options.on(
              "--namespace NAME", "the application whose keys are meant; by default",
              "$PLOCK_NAMESPACE, else config/plock.yml"
            ) { |text| @namespace = text }
            options.on(
              "--config FILE", "instead of config/plock.yml, which is looked for here and above;",
              "none: no file"
            ) { |text| @config = text }
            options.on("-h", "--help", "say this") { @helped = true }
          end
      end

      def read(parser) = parser.permute(@arguments)

      def explain(error)
        name = error.args.first.to_s[/\A[^=]*/]
        case error
        when OptionParser::InvalidOption
          "unknown option #{name}#{UsageError.suggestion(name, long_options)}"
        when OptionParser::AmbiguousOption
          "#{name} may be " \
            "#{long_options.select { |known| known.start_with?(name) }.join(" or ")}"
        when OptionParser::MissingArgument
          "#{name} needs a value"
        when OptionParser::NeedlessArgument
          "#{name} takes no value"
        else
          error.message
        end
      end

      def long_options
        names = []
        parser.summarize { |line| names << $1 if line =~ /\A\s*(?:-\w, )?(--[a-z-]+)/ }
        names
      end

      def usage(message) = UsageError.new(message, "plock #{self.class::NAME} --help")

      def json_option(options)
        options.on("--json", "say it in JSON") { @json = true }
      end

      def seconds(option, text)
        Float(text)
      rescue ArgumentError
        raise usage("#{option} must be a number of seconds (got #{text.inspect})")
      end

      # --- operands ---

      # For commands that take one key. Other commands override this.
      def take(operands)
        raise usage("which key?") if operands.empty?
        raise usage("one key at a time (got #{operands.size})") if operands.size > 1

        @key = operands.first
      end

      # For commands that take no key.
      def take_none(operands)
        raise usage("no key is needed (got #{operands.first.inspect})") if operands.any?
      end

      # --- the store ---

      def store
        @store ||= begin
          if settings.url.match?(/\Amemory:/i)
            raise usage("a store in memory excludes only its own process: name another store")
          end

          Store.open(settings.url, **endurance, **settings.options, logger: Reporter)
        end
        # Dalli logs each failure on the standard output stream, between the lines that this command
        # prints. The command reports the failure as an error anyway.
        ::Dalli.logger.level = :fatal if defined?(::Dalli)
        @store
      end

      # This process has nothing else to do, so it waits through an outage of the server, for as
      # long as --wait allows. If the URL or the configuration file sets `unavailable_timeout`, that
      # time applies instead. A local store has no server, and so no outage.
      def endurance
        url = settings.url
        return {} if url.match?(/\Alocal:/i) || url.match?(/[?&]unavailable_timeout=/)

        { unavailable_timeout: OUTAGE }
      end

      # Calls the block. If the folder of a local store is missing, calls the block again and again,
      # for as long as --wait allows. Does not repeat the block once a lease has been acquired.
      #
      # @param wait [Float] seconds
      # @yieldparam left [Float] how many seconds the block may still wait
      # @raise [ArgumentError] the wait is invalid
      def riding_out(wait)
        patience_ends = Clock.now + Locking::Arguments.span("wait:", wait)
        store # outside the loop, because a store that cannot be opened is not an outage
        begin
          yield [patience_ends - Clock.now, 0.0].max
        rescue UnavailableError => e
          raise if e.code != :disconnected || @entered || Clock.now >= patience_ends

          sleep(AWAY_S)
          retry
        end
      end

      def settings
        require_relative "settings"
        @settings ||= Settings.new(@url, @namespace, @config)
      end

      # --- the user ---

      # @param lines [Array<String>] what the question is about
      # @return [Boolean] was the answer yes?
      # @raise [UsageError] standard input is not a terminal
      def confirmed?(lines, question)
        unless $stdin.tty?
          raise usage("cannot ask for confirmation: standard input is not a terminal; pass --yes")
        end

        $stderr.puts(lines)
        $stderr.print("#{question} [y/N] ")
        answer = $stdin.gets
        $stderr.puts unless answer
        answer.to_s.strip.match?(/\Ay(es)?\z/i)
      end

      # --- output ---

      def json(object)
        require "json"
        JSON.generate(scrubbed(object))
      end

      # JSON can only contain valid text, but a path may be any bytes.
      def scrubbed(object)
        case object
        when Hash then object.transform_values { |value| scrubbed(value) }
        when Array then object.map { |value| scrubbed(value) }
        when String then PlainText.utf8(object)
        else object
        end
      end
    end
  end
end
