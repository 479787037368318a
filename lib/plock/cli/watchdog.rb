# frozen_string_literal: true

require "plock"

module Plock
  module CLI
    # Kills a process group if this process ends, in whatever way, before {#release} is called.
    # The watchdog is a small process in C, in a session of its own, that reads a pipe. It closes
    # all other descriptors except `holding`, so that no process waits for the watchdog to close
    # one. Only SIGKILL can end the watchdog, and {#keep_alive} then starts another one.
    class Watchdog
      # The format of a process group's number.
      GROUP = "i"
      NOBODY = 0
      private_constant :GROUP, :NOBODY

      # @return [Integer]
      attr_reader :pid

      # @param holding [Integer, nil] a descriptor to keep open until the group has ended. On some
      #   stores, a lock lasts as long as any process has its descriptor open.
      def initialize(holding: nil)
        @holding = holding
        @group = NOBODY
        start
      end

      # From now on, this group must not outlive this process.
      #
      # @param group [Integer]
      def guard(group)
        @group = group
        tell(group)
      end

      # From now on, the group may outlive this process.
      def release = guard(NOBODY)

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

      # A new watchdog knows the group from its start, because this process may be killed before
      # it could send the group through the pipe.
      def start
        reader, @pipe = IO.pipe
        @pid = Processes.start_watchdog(reader.fileno, @holding, @group)
        reader.close
      end

      def tell(group)
        @pipe.syswrite([group].pack(GROUP))
      rescue Errno::EPIPE
        nil # the watchdog was killed: keep_alive starts another one with this group
      end
    end
  end
end
