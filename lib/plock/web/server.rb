# frozen_string_literal: true

require "socket"
require_relative "gate"

module Plock
  class Web
    # Serves the pages for `plock web`, on Puma or WEBrick.
    #
    # @api private
    class Server
      NAMES = %w[puma webrick].freeze
      THREADS = 4
      private_constant :THREADS

      # @param port [Integer] 0: any free port
      # @param name [String, nil] one of NAMES; nil: the first one that is installed
      # @raise [LoadError] the gem is missing
      # @raise [SystemCallError] the address cannot be used
      def self.open(app, host, port, name = nil)
        new(app, host, port, load_one(name ? [name] : NAMES))
      end

      # @return [String] the name of the first server that is installed
      def self.load_one(names)
        loaded = names.find do |name|
          require name
          require_handler if name == "webrick"
          true
        rescue LoadError => e
          raise unless [name, "rackup/handler/webrick", "rack/handler/webrick"].include?(e.path)
        end
        return loaded if loaded

        raise LoadError,
              "plock web needs the gem puma, or webrick with rackup, which are not installed " \
              "here or not in the Gemfile. Add `gem \"puma\"` to the Gemfile"
      end
      private_class_method :load_one

      def self.require_handler
        require "rackup/handler/webrick"
      rescue LoadError => e
        raise unless e.path == "rackup/handler/webrick"

        require "rack/handler/webrick" # the handler of Rack 2
      end
      private_class_method :require_handler

      # @return [String] the URL, with the token
      attr_reader :url

      def initialize(app, host, port, name)
        @gate = Gate.new(app, [host, Socket.gethostname])
        port = name == "puma" ? set_up_puma(host, port) : set_up_webrick(host, port)
        @url = "http://#{host.include?(":") ? "[#{host}]" : host}:#{port}/?token=#{@gate.token}"
      end

      # Serves until {#stop} is called.
      def run = @run.call

      def stop = @stop.call

      private

      # @return [Integer] the port
      def set_up_puma(host, port)
        server = Puma::Server.new(@gate, nil, min_threads: 0, max_threads: THREADS)
        # Puma would listen on several addresses of "localhost", each with a different port
        host = Addrinfo.tcp(host, port).ip_address if host == "localhost"
        listener = server.add_tcp_listener(host, port)
        @run = -> { server.run.join }
        @stop = -> { server.stop(true) }
        listener.local_address.ip_port
      end

      # @return [Integer] the port
      def set_up_webrick(host, port)
        handler = defined?(::Rackup) ? ::Rackup::Handler::WEBrick : ::Rack::Handler::WEBrick
        quiet = WEBrick::Log.new(nil, WEBrick::BasicLog::WARN)
        server = WEBrick::HTTPServer.new(
          BindAddress: host, Port: port, Logger: quiet, AccessLog: []
        )
        server.mount("/", handler, @gate)
        @run = -> { server.start }
        @stop = -> { server.shutdown }
        server.listeners.first.local_address.ip_port
      end
    end
  end
end
