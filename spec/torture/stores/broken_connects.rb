# frozen_string_literal: true

require "mysql2"

module Torture
  module Stores
    # The sockets that mysql2 loses. It notes that a client is connected only after Ruby has looked
    # for interrupts. If an interrupt ends a connect that the server has accepted, mysql2 takes the
    # client for closed. Then neither `close` nor the garbage collector closes its socket, and the
    # socket stays open as long as the process lives.
    #
    # Stores connect where no interrupt arrives. `Locker` uses the application's own connections,
    # which Active Record opens in the thread of the call.
    module BrokenConnects
      # Notes the socket of a client whose connect ends without an error of mysql2's own.
      module Noting
        private

        def connect(*)
          connected = false
          super.tap { connected = true }
        rescue ::Mysql2::Error
          connected = true # it has closed the socket
          raise
        ensure
          Thread.handle_interrupt(Object => :never) { BrokenConnects.note(self) unless connected }
        end
      end

      @sockets = []

      class << self
        # @return [Array<String>] names as those of Support::Inventory
        attr_reader :sockets

        # From now on the sockets are noted.
        def watch
          ::Mysql2::Client.prepend(Noting)
        end

        # @param client [Mysql2::Client]
        def note(client)
          @sockets << File.readlink("/proc/self/fd/#{client.socket}")
        rescue ::Mysql2::Error, SystemCallError
          nil # it was not connected yet
        end
      end
    end
  end
end
