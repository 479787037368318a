# frozen_string_literal: true

require "plock"

module Plock
  module CLI
    # Kills a process group when this process ends before it has said that all is well, however it
    # ends: a process of a few lines of C in a session of its own, that reads a pipe. It has no
    # other descriptor but the one it is told to hold on to, so nobody waits for it, and it hears of
    # no signal but SIGKILL; where that meets it, another one takes its place.
    class Watchdog
      # As the system has the number of a process group in memory.
      GROUP = "i"
      NOBODY = 0
      private_constant :GROUP, :NOBODY

      # @return [Integer]
      attr_reader :pid

      # @param holding [Integer, nil] a descriptor to be kept open until the group is gone: a lock
      #   that lives as long as somebody has it open is then not passed on before
      def initialize(holding: nil)
        @holding = holding
        @group = NOBODY
        start
      end

      # From now on this group is not to outlive this process.
      #
      # @param group [Integer]
      def guard(group)
        @group = group
        tell(group)
      end

      # The group may go on by itself.
      def release
        guard(NOBODY)
      end

      def keep_alive
        return unless Process.wait(@pid, Process::WNOHANG)

        @pipe.close
        start
      end

      def finish
        @pipe.close
        Process.wait(@pid)
      end

      private

      # It knows the group from its first moment: this process may be killed before it could tell
      # it.
      def start
        reader, @pipe = IO.pipe
        @pid = Processes.start_watchdog(reader.fileno, @holding, @group)
        reader.close
      end

      def tell(group)
        @pipe.syswrite([group].pack(GROUP))
      rescue Errno::EPIPE
        nil # it was killed: SIGCHLD says so, too, and then keep_alive tells the next one
      end
    end
  end
end
