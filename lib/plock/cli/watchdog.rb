# frozen_string_literal: true

require "plock"

module Plock
  module CLI
    # Kills a process group if this process ends for any reason before {#release} is called.
    #
    # The watchdog is a separate process, written in C. It has a session of its own, and reads a
    # pipe from this process. It keeps only the descriptors of the pipe and `holding` open,
    # because another process may wait until the others are closed. SIGKILL is the only signal that
    # ends it; {#keep_alive} then starts a new watchdog.
    class Watchdog
      # The format in which the pipe carries a process group's number; see Array#pack.
      GROUP = "i"
      NOBODY = 0
      private_constant :GROUP, :NOBODY

      attr_reader :pid

      # @param holding [Integer, nil] a descriptor to keep open until the group has ended; nil means
      #   none. In a local store, the locks of this process last as long as the descriptor is open.
      def initialize(holding: nil)
        @holding = holding
        @group = NOBODY
        start
      end

      # From now on, this group must not outlive this process.
      def guard(group)
        @group = group
        @pipe.syswrite([group].pack(GROUP))
      rescue Errno::EPIPE
        nil # the watchdog was killed: keep_alive starts another one with this group
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

      # Passes the group to the new watchdog at its start. If the group were sent through the pipe
      # later, this process could be killed before it sends the group.
      def start
        reader, @pipe = IO.pipe
        @pid = Processes.start_watchdog(reader.fileno, @holding, @group)
        reader.close
      end
    end
  end
end
