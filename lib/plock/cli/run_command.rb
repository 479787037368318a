# frozen_string_literal: true

require_relative "command"

module Plock
  module CLI
    # `plock run`
    class RunCommand < Command
      NAME = "run"
      USAGE = "[options] KEY [options] [--] COMMAND [ARGUMENT ...]"
      DESCRIPTION = <<~TEXT
        Runs COMMAND while it holds KEY. No other holder of KEY runs at the same time. The lease
        is renewed while COMMAND runs. If the lease is lost, plock ends COMMAND and its
        children; if plock itself is killed, they are killed at once. COMMAND gets PLOCK_KEY,
        PLOCK_TOKEN and PLOCK_FENCE in its environment. Signals are passed on to it. Processes
        that it leaves behind keep running.
        Exit status: that of COMMAND; 128 + n if signal n ended it; 75 if KEY is held by
        another; 76 if the lease was lost; 69 if the store cannot be used; 71 if the system
        refuses a process, a thread or a file; 64 if the arguments are invalid; 126 or 127 if
        COMMAND cannot be run.
      TEXT

      DEFAULT_TTL = 30.0
      DEFAULT_GRACE = 10.0
      BUSY = { "fail" => ExitStatus::BUSY, "skip" => ExitStatus::OK }.freeze
      private_constant :DEFAULT_TTL, :DEFAULT_GRACE, :BUSY

      def initialize(arguments)
        super
        @lease_options = { ttl: DEFAULT_TTL, wait: 0.0, at_least: 0.0, label: nil }
        @grace = DEFAULT_GRACE
        @busy = "fail"
      end

      private

      def define(options)
        span(options, :ttl, "--ttl SECONDS", "when KEY is free again if this machine dies (30)")
        span(options, :wait, "--wait SECONDS", "how long to wait for KEY (0)")
        span(
          options, :at_least, "--at-least SECONDS",
          "how long KEY stays taken even if COMMAND ends before (0)"
        )
        options.on(
          "--label TEXT", "the label that status and list show"
        ) { |text| @lease_options[:label] = text }
        options.on(
          "--on-busy ACTION", "if KEY is held: fail (75) or skip (0); default fail"
        ) { |text| @busy = text }
        options.on("--grace SECONDS", "from TERM to KILL when the lease is lost (10)") do |text|
          @grace = seconds("--grace", text)
        end
      end

      def span(options, name, switch, description)
        options.on(switch, description) do |text|
          @lease_options[name] = seconds(switch[/\S+/], text)
        end
      end

      # Options may come before or after the key. Everything from the command on belongs to the
      # command.
      def read(parser)
        rest = parser.order(@arguments)
        key = rest.shift
        key ? [key, *parser.order(rest)] : []
      end

      def take(operands)
        @key, *@command = operands
        raise usage("which key?") unless @key
        raise usage("which command?") if @command.empty?
        unless BUSY.key?(@busy)
          raise usage("--on-busy is #{BUSY.keys.join(" or ")} (got #{@busy.inspect})")
        end
        if @command.any? { |word| word.include?("\0") }
          raise usage("an argument with a NUL byte in it")
        end

        @grace = Locking::Arguments.span("--grace", @grace)
      end

      def call
        require_relative "job"
        require_relative "scribe"
        @bell = Bell.new
        status = Scribe.during do
          riding_out(@lease_options.fetch(:wait, 0.0)) { |left| acquire(left) }
        end
        status || interrupt
      rescue TimeoutError => e
        report_busy(e.status)
        BUSY.fetch(@busy)
      end

      # @return [Integer, nil] as {#supervise} returns it
      def acquire(left)
        store.acquire(
          @key, **@lease_options, wait: left, renew: true, on_lost: ->(_) { @bell.ring(Bell::LOST) }
        ) { |lease| supervise(lease) }
      end

      # @return [Integer, nil] the exit status; nil: Ctrl-C ended the command
      def supervise(lease)
        @entered = true
        # In a local store, this process counts as alive as long as this descriptor is open. The
        # watchdog keeps it open until the last process of the command's group has ended, so that no
        # other process acquires the key earlier.
        liveness = store.liveness if store.is_a?(LocalStore)
        job =
          Job.new(
            @command, environment(lease), lease: lease, bell: @bell, grace: @grace,
            holding: liveness
          )
        status =
          job.run { CLI.complain("the lease on #{@key.inspect} was lost: the command is ended") }
        return ExitStatus::LOST if job.lost? || lost_unnoticed?(lease, keep: !job.failed_to_run?)

        job.interrupted? ? nil : status
      end

      # Ctrl-C has sent SIGINT only to the command's group, because that group had the terminal. So
      # this method sends SIGINT to the rest of the job. Then SIGINT ends this process as well.
      def interrupt
        trap("INT", "IGNORE")
        Process.kill("INT", 0)
        raise SignalException, "INT"
      end

      def environment(lease)
        { "PLOCK_KEY" => @key, "PLOCK_TOKEN" => lease.token, "PLOCK_FENCE" => lease.fence.to_s }
      end

      # Releases the lease. Returns true if the lease was already lost, although no notice of the
      # loss has arrived. For example, the lock may have been broken just before the release.
      def lost_unnoticed?(lease, keep:)
        return false if lease.release(keep: keep)

        CLI.complain("the lease on #{@key.inspect} was lost before the command had ended")
        true
      rescue Error => e
        CLI.complain(
          "#{@key.inspect} could not be released (#{e.message}): " \
            "it is free again within #{lease.ttl.round(3)} s"
        )
        false
      end

      def report_busy(status)
        return if @busy == "skip"

        require_relative "description"
        status ||= look
        state = status&.held? ? Description.printable(status.to_s) : "held by another"
        CLI.complain("#{@key.inspect} is #{state}")
      end

      # Asks the store for the holder of the key. Called if the error of the acquire does not name
      # the holder, because the store did not answer in time.
      def look
        store.status(@key)
      rescue Error
        nil # the message then says only that the key is held
      end
    end
  end
end
