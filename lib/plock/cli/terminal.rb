# frozen_string_literal: true

require "plock"

module Plock
  module CLI
    # The controlling terminal, which is in the hands of one process group at a time: it may read
    # from it, and Ctrl-C and Ctrl-Z are for it. The command has a group of its own, so it is handed
    # over.
    class Terminal
      # @return [Terminal, nil] nil: this process has none, as under cron
      def self.open
        new(File.open("/dev/tty", File::RDWR | File::NOCTTY))
      rescue SystemCallError
        nil
      end

      # @api private
      def initialize(tty)
        @tty = tty
        @borrower = nil
      end

      # Is it in this process's hands, or of one of the same job?
      #
      # @return [Boolean]
      def ours?
        holder == Process.getpgrp
      end

      # To a group that uses it at once: not where others of the same job may be reading from it, as
      # a pager behind a pipe does. Such a group gets it when it asks for it, and is stopped for
      # that by the system.
      #
      # @return [Boolean]
      def shared?
        !$stdin.tty? || !$stdout.tty?
      end

      # @return [Boolean] is it lent?
      def lent?
        !@borrower.nil?
      end

      # @param group [Integer]
      def lend(group)
        @modes ||= modes
        @borrower = group if Processes.hand_terminal(@tty.fileno, group)
      end

      def take_back
        return unless @borrower

        Processes.hand_terminal(@tty.fileno, Process.getpgrp) if holder == @borrower
        @borrower = nil
      end

      # As it was before it was lent: a killed command could not restore it.
      def tidy
        @tty.console_mode = @modes if @modes && ours?
      rescue SystemCallError
        nil # it was hung up
      end

      private

      def modes
        require "io/console"
        @tty.console_mode
      rescue SystemCallError
        nil # it was hung up
      end

      def holder
        Processes.terminal_group(@tty.fileno)
      end
    end
  end
end
