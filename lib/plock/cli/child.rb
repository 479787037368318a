# frozen_string_literal: true

require "plock"
require_relative "../cli"

module Plock
  module CLI
    # The command as a process: the first of a process group of its own, which does not begin before
    # everything is ready for it.
    class Child
      # @return [Integer] its pid, and that of its group
      attr_reader :pid

      # @return [Process::Status, nil] its end
      attr_reader :status

      # Forks. What it is to run it runs when {#start} is called; if that never comes, it is gone.
      #
      # @param command [Array<String>]
      # @param environment [Hash{String => String}]
      def initialize(command, environment)
        waits, @go = IO.pipe
        @failure, fails = IO.pipe # of which the other end is gone as soon as it is the command
        @pid = fork { become(command, environment, waits, fails) }
        [waits, fails].each(&:close)
        form_group
      end

      def start
        @go.syswrite("!")
        @go.close
      rescue Errno::EPIPE
        nil # it was killed before it began
      end

      # @return [Boolean] has it ended? It is not reaped yet, so no other group has its number.
      def ended?
        @status.nil? && Processes.ended?(@pid)
      end

      # @return [Boolean] now that it has ended: was it never the command, because that cannot be
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

      # To all of its group.
      #
      # @param signal [Integer, String]
      # @return [Boolean] is there a process in its group?
      def kill(signal)
        Process.kill(signal, -@pid)
        true
      rescue Errno::ESRCH
        false
      rescue Errno::EPERM # they have become somebody else
        true
      end

      # @return [Boolean] is a process of its group still alive?
      def group?
        kill(0)
      end

      private

      # Both sides do it: whoever comes first, it is done when either goes on.
      def form_group
        Process.setpgid(@pid, @pid)
      rescue Errno::EACCES, Errno::ESRCH
        nil # it was quicker, or it is gone
      end

      # Its copies of the parent's pipes are closed when it is another program.
      def become(command, environment, waits, fails)
        Process.setpgid(0, 0)
        Processes.die_with_parent
        @go.close # or it would wait for itself, where the parent is no more
        exit!(ExitStatus::SOFTWARE) unless waits.read(1)
        exec(environment, [command.first, command.first], *command.drop(1))
      rescue SystemCallError => e
        fails.syswrite("!")
        CLI.complain("#{command.first}: #{e.message.delete_suffix(" - #{command.first}")}")
        exit!(e.is_a?(Errno::ENOENT) ? ExitStatus::NOT_FOUND : ExitStatus::CANNOT_RUN)
      ensure
        exit!(ExitStatus::CANNOT_RUN) # nothing of the parent's is to run here, whatever was raised
      end
    end
  end
end
