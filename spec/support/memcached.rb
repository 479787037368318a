# frozen_string_literal: true

require_relative "database_server"

module Support
  # A private memcached on a free loopback port.
  class Memcached < DatabaseServer
    PROGRAMS = %w[memcached].freeze
    FAST = :INT

    def address = "127.0.0.1:#{port}"

    private

    def initialize_data; end

    def start_command(port)
      ["memcached", "-l", "127.0.0.1", "-p", port.to_s, "-U", "0", "-m", "16"]
    end

    def answers?
      TCPSocket.open("127.0.0.1", port) do |connection|
        # the answer must contain the server's pid, because another program may have taken the port
        # first
        connection.write("stats\r\n")
        connection.wait_readable(1) && connection.readpartial(4096).include?("STAT pid #{pid}\r\n")
      end
    rescue SystemCallError, EOFError
      false
    end
  end
end
