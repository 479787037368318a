# frozen_string_literal: true

require "plock"
require "timeout"
require_relative "../cli"

module Plock
  module CLI
    # The child process that runs the command, as the leader of a process group of its own. The
    # command does not begin before {#start}.
    class Child
      FORK_S = 2.5 # seconds; within this time, Ruby tries to fork three times
      private_constant :FORK_S

      # @return [Integer] the pid of the process, which is also the number of its group
      attr_reader :pid

      # @return [Process::Status, nil] how the process ended; nil: it has not been reaped
      attr_reader :status

      # Forks. The child runs the command when {#start} is called. If this process ends before
      # that, the child ends as well.
      def initialize(command, environment)
        waits, @go = IO.pipe
        @failure, fails = IO.pipe # the child's exec closes `fails`
        fork_in_time { become(command, environment, waits, fails) }
        [waits, fails].each(&:close)
        form_group
      end

      def start
        @go.syswrite("!")
        @go.close
      rescue Errno::EPIPE
        nil # the child was killed before the command began
      end

      # @return [Boolean] has the command ended, but not been reaped yet? Until it is reaped, no
      #   other process group can get the same number.
      def ended? = @status.nil? && Processes.ended?(@pid)

      # Call this only after the child has ended.
      #
      # @return [Boolean] did the child end without becoming the command, because the command
      #   could not be run?
      def failed_to_run?
        @failed_to_run = !@failure.read.empty? && @failure.close.nil? unless @failure.closed?
        @failed_to_run
      end

      def reap
        @status = Process.wait2(@pid).last
      end

      # @return [Integer, nil] the signal that has stopped the command since the last call, if any
      def stopped
        status = Process.wait2(@pid, Process::WNOHANG | Process::WUNTRACED)&.last or return
        return status.stopsig if status.stopped?

        @status = status
        nil
      end

      # Sends a signal to the whole process group.
      #
      # @return [Boolean] is there a process in the group?
      def kill(signal)
        Process.kill(signal, -@pid)
        true
      rescue Errno::ESRCH
        false
      rescue Errno::EPERM # the processes now run as another user
        true
      end

      # Call this only after the child has ended.
      #
      # @return [Boolean] is a process of the child's group still alive?
      def group?
        reap_orphans
        kill(0)
      end

      private

      # Sets the pid. While the system refuses another process, Ruby's `fork` waits and tries again
      # without end. Meanwhile the key would stay taken.
      def fork_in_time(&child)
        Thread.handle_interrupt(Errno::EAGAIN => :on_blocking) do # never between fork and @pid
          Timeout.timeout(FORK_S, Errno::EAGAIN, "fork(2)") do
            @pid = Processes.signals_blocked { fork(&child) }
          end
        end
      end

      # Parent and child both call setpgid for the child, so that the group exists before either of
      # them continues.
      def form_group
        Process.setpgid(@pid, @pid)
      rescue Errno::EACCES, Errno::ESRCH
        nil # the child has formed the group itself, or has ended
      end

      # Reaps dead processes of the group that were orphaned. In a container, they may become
      # children of this process. Until it is reaped, a dead process would count as a member of the
      # group.
      def reap_orphans
        nil while Process.wait(-@pid, Process::WNOHANG)
      rescue Errno::ECHILD
        nil
      end

      # Turns the child into the command. The exec closes the child's copies of the parent's
      # pipes. A signal that arrives before the exec affects the child as it would have affected
      # the command.
      def become(command, environment, waits, fails)
        Process.setpgid(0, 0)
        Processes.die_with_parent
        @go.close # otherwise the read below would never end if the parent has ended
        exit!(ExitStatus::SOFTWARE) unless waits.read(1)
        Processes.default_signals
        exec(environment, [command.first, command.first], *command.drop(1))
      rescue SystemCallError => e
        fails.syswrite("!")
        $stderr = STDERR # $stderr may be a Scribe, whose thread does not exist in a fork
        CLI.complain("#{command.first}: #{e.message.delete_suffix(" - #{command.first}")}")
        exit!(e.is_a?(Errno::ENOENT) ? ExitStatus::NOT_FOUND : ExitStatus::CANNOT_RUN)
      ensure
        exit!(ExitStatus::CANNOT_RUN) # no code of the parent may run here, whatever was raised
      end
    end
  end
end
