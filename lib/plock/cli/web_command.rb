# frozen_string_literal: true

require_relative "command"

module Plock
  module CLI
    # `plock web`
    class WebCommand < Command
      NAME = "web"
      USAGE = "[options]"
      DESCRIPTION = <<~TEXT
        Shows the locks in a browser. Prints a URL with a random token; only a browser that has
        opened it sees the pages. Only this host reaches them, unless --host says otherwise.
        Needs the gems rack and erubi, and puma or webrick, from the bundle if there is one.
        Exit status: 0 when it is ended by INT or TERM.
      TEXT

      HERE = "127.0.0.1"
      LOCALHOST = "localhost"
      PORTS = (0..65_535).freeze
      private_constant :HERE, :LOCALHOST, :PORTS

      private

      def define(options)
        options.on("--host HOST", "the address to listen on; by default #{HERE}") do |text|
          @host = text
        end
        options.on("--port PORT", "by default any free one") { |text| @port = port(text) }
        options.on("--server NAME", "puma or webrick; by default the first one installed") do |text|
          @server = text
        end
        options.on("--read-only", "no lock can be broken") { @read_only = true }
        options.on("--all-namespaces", "show the keys of all namespaces") { @all = true }
      end

      def port(text)
        number = Integer(text, 10, exception: false)
        return number if PORTS.cover?(number)

        raise usage("--port must be from #{PORTS.first} to #{PORTS.last} (got #{text.inspect})")
      end

      def take(operands) = take_none(operands)

      def call
        server = open_server
        $stdout.puts(server.url)
        $stdout.flush
        warn_of_reach
        serve(server)
        ExitStatus::OK
      end

      def open_server
        require_relative "../web"
        require_relative "../web/server"
        names = Web::Server::NAMES
        unless @server.nil? || names.include?(@server)
          raise usage("--server must be #{names.join(" or ")} (got #{@server.inspect})")
        end

        Web::Server.open(pages, @host || HERE, @port || 0, @server)
      rescue LoadError => e
        raise Failure.new(e.message, ExitStatus::UNAVAILABLE)
      rescue SocketError, SystemCallError => e
        raise usage("cannot listen on #{@host || HERE}, port #{@port || 0}: #{e.message}")
      end

      # Authorizes every request, because only a browser with the URL's token reaches the pages.
      def pages
        Web.new(
          store,
          authorize: Web::ALL, read_only: @read_only, all_namespaces: @all, logger: Reporter
        )
      end

      def warn_of_reach
        return if loopback?(@host || HERE)

        CLI.complain("other hosts reach the pages too, without encryption: a program that reads " \
                     "the traffic can break locks. Prefer an SSH tunnel to #{HERE}")
      end

      def loopback?(host)
        require "ipaddr"
        host == LOCALHOST || IPAddr.new(host).loopback?
      rescue IPAddr::Error
        false
      end

      # Stops the server from another thread, because a signal handler must not stop it.
      def serve(server)
        ended, signals = IO.pipe
        before = %w[INT TERM].to_h { |name| [name, trap(name) { signals.write_nonblock("!") }] }
        watcher = Thread.new do
          ended.read(1)
          server.stop
        end
        server.run
      ensure
        before&.each { |name, handler| trap(name, handler || "DEFAULT") }
        watcher&.kill
      end
    end
  end
end
