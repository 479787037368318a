# frozen_string_literal: true

require_relative "bell"
require_relative "child"
require_relative "terminal"
require_relative "watchdog"

module Plock
  module CLI
    # Runs a command while this process has a lease, and ends the command if the lease is lost.
    #
    # Signals are passed on to the command's whole process group, as a terminal would do. When the
    # command is stopped (Ctrl-Z), this process also stops, so that the shell notices. When the
    # shell continues this process, the command continues only if the lease is still valid.
    class Job
      # Seconds between two checks whether a process group has ended, because the system does not
      # report the end of a group. Also how long to wait for CONT after a stop.
      LOOK = 0.02

      # The signals that stop a process when it uses a terminal that belongs to another group.
      TERMINAL_STOPS = %w[TTIN TTOU].map { |name| Signal.list.fetch(name) }.freeze
      CONTINUED = Signal.list.fetch("CONT")
      CHILD = Signal.list.fetch("CHLD")
      INTERRUPTED = Signal.list.fetch("INT")
      # The signals that stop all processes of a shell's job. TTIN is one of them: if any process of
      # a background job reads from the terminal, the system sends TTIN to the whole job.
      JOB_STOPS = %w[TSTP TTIN].map { |name| Signal.list.fetch(name) }.freeze

      private_constant :LOOK, :TERMINAL_STOPS, :CONTINUED, :CHILD, :INTERRUPTED, :JOB_STOPS

      # @param environment [Hash{String => String}] variables that the command receives in addition
      #   to those of this process
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

      def lost? = @lost

      # @return [Boolean] true if the command did not start because it cannot be run; call this
      #   after {#run}
      def failed_to_run? = @child.failed_to_run?

      # Did Ctrl-C end the command? If so, SIGINT must also end this process, because a shell may
      # run this process in a loop or a script. The shell stops if SIGINT ended this process, but
      # continues if this process exits with status 130. A session leader has no such shell.
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

      # @return [Float, nil] seconds until SIGKILL ends the command; nil if the lease is not lost,
      #   or if SIGKILL was already sent
      def patience = @deadline && [@deadline - Clock.now, 0.0].max

      def respond(number)
        case number
        when Bell::LOST then lose
        when CONTINUED then go_on
        when CHILD then nil # each round checks the command
        else
          # Remembers that this signal must stop the whole job. TTIN or TTOU may stop the command
          # before this signal arrives. Without `@to_stop`, `stop` would then let the command
          # continue.
          @to_stop ||= JOB_STOPS.include?(number)
          @child.kill(number)
        end
      end

      # The watchdog must forget the group before `reap`. Afterwards, the system may give the
      # group's number to another group, and the watchdog must not kill that group.
      def end_child
        @watchdog.release unless @lost
        @child.reap
      end

      # --- stop and continue ---

      # Called when the command has been stopped. If the command only needs the terminal, and this
      # job has the terminal, the command continues. Otherwise this method stops the whole job.
      def stop(signal)
        return if @terminal.nil? || @lost

        wants = TERMINAL_STOPS.include?(signal) && !@to_stop
        @wants_terminal ||= wants
        return go_on if wants && @terminal.ours?

        @terminal.take_back
        continued = stop_job(signal)
        # no shell can continue the stopped command, so HUP ends it, as the system ends such jobs
        @child.kill("HUP") if wants && !continued
        go_on
      end

      # @return [Boolean] true if this process was stopped and continued. False if no shell controls
      #   its job, because the system then does not stop this process.
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
        @child.kill("CONT") # a stopped process handles TERM only after it continues
        @on_lost.call
      end

      def end_by_force
        @deadline = nil
        @child.kill("KILL")
      end

      # After a loss, the command may have ended while processes that it started are still running.
      # Waits for these processes, and kills them at the deadline.
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

      # Kills the command, because an exception ends this process before the command has ended.
      def abandon
        @child.kill("KILL")
        @child.reap
      end
    end
  end
end
