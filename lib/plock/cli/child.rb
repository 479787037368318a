# frozen_string_literal: true

require "plock"
require_relative "../cli"

module Plock
  module CLI
    # The command as a process, the first of a process group of its own. It does not begin before
    # {#start}.
    class Child
      # @return [Integer] its pid, and that of its group
      attr_reader :pid

      # @return [Process::Status, nil] its end
      attr_reader :status

      # Forks. The child runs the command when {#start} is called. If this process ends before, the
      # child ends as well.
      #
      # @param command [Array<String>]
      # @param environment [Hash{String => String}]
      def initialize(command, environment)
        waits, @go = IO.pipe
        @failure, fails = IO.pipe # exec closes the other end
        @pid = Processes.signals_blocked { fork { become(command, environment, waits, fails) } }
        [waits, fails].each(&:close)
        form_group
      end

      def start
        @go.syswrite("!")
        @go.close
      rescue Errno::EPIPE
        nil # it was killed before it began
      end

      # @return [Boolean] has the command ended? It is not reaped yet, so no other group has its
      #   number.
      def ended? = @status.nil? && Processes.ended?(@pid)

      # @return [Boolean] after its end: did it never become the command, because that cannot be
      #   run?
      def failed_to_run?
        @failed_to_run = !@failure.read.empty? && @failure.close.nil? unless @failure.closed?
        @failed_to_run
      end

      # @return [Process::Status]
      def reap
        @status = Process.wait2(@pid).last
      end

      # @return [Integer, nil] the signal that stopped it, if one has since the last call
      def stopped
        status = Process.wait2(@pid, Process::WNOHANG | Process::WUNTRACED)&.last or return
        return status.stopsig if status.stopped?

        @status = status
        nil
      end

      # Sends a signal to all of its group.
      #
      # @param signal [Integer, String]
      # @return [Boolean] is there a process in its group?
      def kill(signal)
        Process.kill(signal, -@pid)
        true
      rescue Errno::ESRCH
        false
      rescue Errno::EPERM # they run as another user now
        true
      end

      # @return [Boolean] after its end: is a process of its group still alive?
      def group?
        reap_orphans
        kill(0)
      end

      private

      # Parent and child both do this, so that it is done when either of them goes on.
      def form_group
        Process.setpgid(@pid, @pid)
      rescue Errno::EACCES, Errno::ESRCH
        nil # the child was quicker, or it is gone
      end

      # In a container, this process may be the one that gets orphans as its children. A dead one
      # stays in the group until it is reaped.
      def reap_orphans
        nil while Process.wait(-@pid, Process::WNOHANG)
      rescue Errno::ECHILD
        nil
      end

      # The exec closes the child's copies of the parent's pipes. A signal that has come before has
      # the effect on this process that it would have had on the command.
      def become(command, environment, waits, fails)
        Process.setpgid(0, 0)
        Processes.die_with_parent
        @go.close # otherwise the child would wait for itself if the parent has ended
        exit!(ExitStatus::SOFTWARE) unless waits.read(1)
        Processes.default_signals
        exec(environment, [command.first, command.first], *command.drop(1))
      rescue SystemCallError => e
        fails.syswrite("!")
        $stderr = STDERR # a fork has no thread of a Scribe
        CLI.complain("#{command.first}: #{e.message.delete_suffix(" - #{command.first}")}")
        exit!(e.is_a?(Errno::ENOENT) ? ExitStatus::NOT_FOUND : ExitStatus::CANNOT_RUN)
      ensure
        exit!(ExitStatus::CANNOT_RUN) # no code of the parent may run here, whatever was raised
      end
    end
  end
end
