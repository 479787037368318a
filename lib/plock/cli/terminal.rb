# frozen_string_literal: true

require "plock"

module Plock
  module CLI
    # The controlling terminal. One process group has it at a time: only that group can read from
    # it, and receives the signals of Ctrl-C and Ctrl-Z. The command has a group of its own, so
    # the terminal is handed over to that group.
    class Terminal
      # @return [Terminal, nil] nil: this process has none, as under cron
      def self.open
        new(File.open("/dev/tty", File::RDWR | File::NOCTTY))
      rescue SystemCallError
        nil
      end

      def initialize(tty)
        @tty = tty
        @borrower = nil
      end

      # Does this process's group have the terminal?
      def ours? = holder == Process.getpgrp

      # Could other processes of this job be using the terminal, such as a pager behind a pipe? If
      # so, the command does not receive the terminal when it starts. The command receives the
      # terminal later, when the system stops the command because it uses the terminal.
      def shared? = !$stdin.tty? || !$stdout.tty?

      def lend(group)
        @modes ||= modes
        @borrower = group if Processes.hand_terminal(@tty.fileno, group)
      end

      def take_back
        return unless @borrower

        Processes.hand_terminal(@tty.fileno, Process.getpgrp) if holder == @borrower
        @borrower = nil
      end

      # Restores the terminal's modes, because a killed command could not restore them.
      def tidy
        @tty.console_mode = @modes if @modes && ours?
      rescue SystemCallError
        nil # the terminal was hung up
      end

      private

      def modes
        require "io/console"
        @tty.console_mode
      rescue SystemCallError
        nil # the terminal was hung up
      end

      def holder = Processes.terminal_group(@tty.fileno)
    end
  end
end
