# frozen_string_literal: true

require_relative "bell"
require_relative "child"
require_relative "terminal"
require_relative "watchdog"

module Plock
  module CLI
    # Runs a command under a lease, from its start to its end. As a job of a shell, the command
    # can be stopped and continued.
    #
    # Signals are passed on to the command's whole process group, as a terminal would do. When the
    # command is stopped (Ctrl-Z), this process also stops, so that the shell notices. The command
    # continues only if the lease is still valid.
    class Job
      # Seconds between two checks whether a process group has ended. The system does not report
      # that.
      LOOK = 0.02

      # The signals that stop a process when it uses a terminal that belongs to another group.
      TERMINAL_STOPS = %w[TTIN TTOU].map { |name| Signal.list.fetch(name) }.freeze
      CONTINUED = Signal.list.fetch("CONT")
      CHILD = Signal.list.fetch("CHLD")
      INTERRUPTED = Signal.list.fetch("INT")
      # The signals that stop the whole job of a shell. This process receives TTIN if another
      # process of the job reads from the terminal in the background.
      JOB_STOPS = %w[TSTP TTIN].map { |name| Signal.list.fetch(name) }.freeze

      private_constant :LOOK, :TERMINAL_STOPS, :CONTINUED, :CHILD, :INTERRUPTED, :JOB_STOPS

      # @param command [Array<String>]
      # @param environment [Hash{String => String}] is added to the environment of this process
      # @param lease [#valid?]
      # @param bell [Bell] rung with LOST when the lease is lost
      # @param grace [Float] seconds from SIGTERM to SIGKILL after a loss
      # @param holding [Integer, nil] a descriptor for the watchdog, see {Watchdog#initialize}
      def initialize(command, environment, lease:, bell:, grace:, holding: nil)
        @lease = lease
        @bell = bell
        @grace = grace
        @terminal = Terminal.open
        @watchdog = Watchdog.new(holding: holding)
        @child = Child.new(command, environment)
        @lost = @to_stop = false
      end

      # @yield once, when the lease is lost and the command must end
      # @return [Integer] the exit status
      def run(&on_lost)
        @on_lost = on_lost
        @bell.listen
        begin_child
        supervise until @child.status
        clear_away if @lost
        @child.status.exitstatus || (ExitStatus::SIGNALLED + @child.status.termsig)
      ensure
        wind_up
      end

      # @return [Boolean]
      def lost? = @lost

      # @return [Boolean] call it after {#run}: did the command never start, because it cannot be
      #   run?
      def failed_to_run? = @child.failed_to_run?

      # Did Ctrl-C end the command? If a shell runs this process in a loop or a script, this
      # process must then also end by the signal. A shell stops after a signal, but continues
      # after the status 130. A session leader has no such shell above it.
      #
      # @return [Boolean]
      def interrupted?
        @terminal && @child.status&.termsig == INTERRUPTED && Process.getsid != Process.pid
      end

      private

      def begin_child
        @watchdog.guard(@child.pid)
        @watchdog.keep_alive
        @wants_terminal = @terminal && !@terminal.shared?
        lend_terminal
        return @child.start if @lease.valid?

        lose # this process was stopped, and the lease expired
        end_by_force
      end

      def lend_terminal
        @terminal.lend(@child.pid) if @wants_terminal && @terminal.ours?
      end

      # One round: waits for events, and responds to them and to the state of the command.
      def supervise
        @bell.heard(patience).each { |number| respond(number) }
        end_by_force if patience&.zero?
        @watchdog.keep_alive
        return end_child if @child.ended?

        signal = @child.stopped
        stop(signal) if signal
      end

      # @return [Float, nil] seconds until the command is ended by force; nil: the lease is not
      #   lost, or the command has already been ended by force
      def patience = @deadline && [@deadline - Clock.now, 0.0].max

      def respond(number)
        case number
        when Bell::LOST then lose
        when CONTINUED then go_on
        when CHILD then nil # each round checks the command
        else
          # Remembers that the whole job must stop. The command may be about to use the terminal,
          # and then TTIN or TTOU may stop it before this signal does.
          @to_stop ||= JOB_STOPS.include?(number)
          @child.kill(number)
        end
      end

      # The watchdog must forget the group before another group can get its number.
      def end_child
        @watchdog.release unless @lost
        @child.reap
      end

      # --- stop and continue ---

      # Stops this process and its job in the same way as the command. But if the command was
      # stopped only because it needs the terminal, and this job has it, the command continues.
      def stop(signal)
        return if @terminal.nil? || @lost

        wants = TERMINAL_STOPS.include?(signal) && !@to_stop
        @wants_terminal ||= wants
        return go_on if wants && @terminal.ours?

        @terminal.take_back
        continued = stop_job(signal)
        # the system does the same if no shell can continue a stopped job
        @child.kill("HUP") if wants && !continued
        go_on
      end

      # @return [Boolean] was this process stopped, and continued? If no shell controls its job,
      #   the system does not stop it.
      def stop_job(signal)
        name =
          if TERMINAL_STOPS.include?(signal) || signal == Signal.list["STOP"]
            "TSTP"
          else
            Signal.signame(signal)
          end
        handler = trap(name, "SYSTEM_DEFAULT")
        Process.kill(name, 0)
        heard = @bell.heard(LOOK)
        heard.each { |number| respond(number) unless number == CONTINUED }
        heard.include?(CONTINUED)
      ensure
        trap(name, handler) if handler
      end

      # Continues the command if the lease is still valid. This process could not renew the lease
      # while it was stopped.
      def go_on
        @to_stop = false
        return lose unless @lease.valid?

        lend_terminal
        @child.kill("CONT")
      end

      # --- the lease is lost ---

      def lose
        return if @lost

        @lost = true
        @deadline = Clock.now + @grace
        @child.kill("TERM")
        @child.kill("CONT") # a stopped process ends only after it continues
        @on_lost.call
      end

      def end_by_force
        @deadline = nil
        @child.kill("KILL")
      end

      # The command has ended, but processes that it started may still be running.
      def clear_away
        while @deadline && @child.group?
          @bell
            .heard([LOOK, patience].min)
            .each { |number| respond(number) unless [CHILD, CONTINUED].include?(number) }
          end_by_force if patience.zero?
        end
      end

      # --- the end ---

      def wind_up
        @child.status || abandon
        @terminal&.take_back
        @terminal&.tidy if @child.status.signaled?
        @watchdog.release
        @watchdog.finish
        @bell.hush
      end

      # Called if an exception ends this process before the command has ended.
      def abandon
        @child.kill("KILL")
        @child.reap
      end
    end
  end
end
