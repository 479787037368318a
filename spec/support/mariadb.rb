# frozen_string_literal: true

require "etc"
require "fileutils"
require_relative "database_server"

module Support
  # A private MariaDB on a Unix socket and a free loopback port.
  class Mariadb < DatabaseServer
    PROGRAMS = %w[mariadb-install-db mariadbd].freeze
    FAST = :TERM
    USER = "plock"

    # The configuration with which Active Record connects.
    def config(adapter) =
      { adapter: adapter, socket: socket, username: USER, database: "plock", encoding: "utf8mb4" }

    def tcp_config(adapter, port: self.port) =
      { adapter: adapter, host: "127.0.0.1", port: port, username: USER, database: "plock" }

    private

    def socket = File.join(@folder, "socket")

    def initialize_data
      # All users may have all permissions, because only the suite uses this server.
      File.write(File.join(@folder, "init.sql"), <<~SQL)
        CREATE DATABASE IF NOT EXISTS plock CHARACTER SET utf8mb4;
        CREATE USER IF NOT EXISTS '#{USER}'@'localhost';
        GRANT ALL ON *.* TO '#{USER}'@'localhost';
        CREATE USER IF NOT EXISTS '#{USER}'@'127.0.0.1';
        GRANT ALL ON *.* TO '#{USER}'@'127.0.0.1';
      SQL
      finish(
        as_user(
          "mariadb-install-db", "--no-defaults", "--datadir=#{data}",
          "--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve"
        )
      )
    end

    def start_command(port)
      [
        "mariadbd", "--no-defaults", "--datadir=#{data}", "--socket=#{socket}",
        "--bind-address=127.0.0.1", "--port=#{port}", "--pid-file=#{@folder}/pid",
        "--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-size=32M", "--skip-log-bin",
        "--init-file=#{@folder}/init.sql"
      ]
    end

    def answers?
      UNIXSocket.open(socket) do |connection|
        connection.wait_readable(1) && connection.readpartial(5).bytesize == 5
      end
    rescue SystemCallError, EOFError
      false
    end
  end
end
