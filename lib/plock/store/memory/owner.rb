# frozen_string_literal: true

require "etc"

module Plock
  module Testing
    # Who asks for a key.
    #
    # @api private
    class Owner
      # @return [String, nil]
      attr_reader :host, :label
      # @return [Integer, nil]
      attr_reader :pid, :thread

      # @param label [String, nil]
      def initialize(label)
        @host = Etc.uname[:nodename]
        @pid = Process.pid
        @thread = Thread.current.native_thread_id
        @label = label
      end

      # @return [Boolean] is it this process, and not its parent?
      def here?
        @pid == Process.pid
      end
    end
  end
end
