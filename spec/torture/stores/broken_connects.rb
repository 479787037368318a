# frozen_string_literal: true

require "mysql2"

module Torture
  module Stores
    # The sockets that mysql2 leaks. mysql2 notes that a client is connected only after Ruby has
    # checked for interrupts. If an interrupt arrives after the server has accepted the connection,
    # mysql2 believes that the client is closed. Then neither `close` nor the garbage collector
    # closes the socket, and it stays open as long as the process lives.
    #
    # plock's stores connect while no interrupt can arrive. But `Locker` uses the application's
    # own connections, which Active Record opens in the thread of the call.
    module BrokenConnects
      # Records the client's socket if an interrupt ends `connect`. After a Mysql2::Error, there is
      # nothing to record, because mysql2 closes the socket itself.
      module Noting
        private

        def connect(*)
          connected = false
          super.tap { connected = true }
        rescue ::Mysql2::Error
          connected = true # mysql2 has closed the socket itself
          raise
        ensure
          Thread.handle_interrupt(Object => :never) { BrokenConnects.note(self) unless connected }
        end
      end

      @sockets = []

      class << self
        # @return [Array<String>] the sockets, named as in Support::Inventory
        attr_reader :sockets

        # Starts to note the sockets.
        def watch
          ::Mysql2::Client.prepend(Noting)
        end

        # @param client [Mysql2::Client]
        def note(client)
          @sockets << File.readlink("/proc/self/fd/#{client.socket}")
        rescue ::Mysql2::Error, SystemCallError
          nil # the client was not connected yet
        end
      end
    end
  end
end
