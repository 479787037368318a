# frozen_string_literal: true

begin
  require "dalli"
rescue LoadError => e
  raise unless e.path == "dalli"

  message = "plock talks to memcached through the gem dalli, which is not installed here or not " \
            "in the Gemfile. Add `gem \"dalli\", \"~> 4.0\"` to the Gemfile. It is needed with a " \
            "client of memcache-client, too"
  raise LoadError, message, cause: e
end
require_relative "../../clock"
require_relative "../../errors"
require_relative "../support/aside"

module Plock
  class Store
    class Memcached
      # One connection to memcached. It stores Strings unchanged, and turns Dalli's errors into
      # plock's errors.
      #
      # @api private
      class Client
        # Leaves Strings unchanged, so that no answer of the server is deserialized.
        module Strings
          def self.dump(value) = value

          def self.load(value) = value
        end

        # If a server is down, its keys do not move to another server, and Dalli soon tries the
        # server again.
        SETTINGS = {
          protocol: :meta, failover: false, threadsafe: true, compress: false, raw: true,
          serializer: Strings, down_retry_delay: 0.1, socket_max_failures: 1,
          socket_failure_delay: 0.01
        }.freeze

        # The options that are copied from the caller's Dalli::Client.
        TAKEN_OVER = %i[username password ssl_context digest_class].freeze

        # Must every request run on a separate thread? Dalli's time limits need IO#timeout, which
        # older versions of Ruby do not have.
        ASIDE = !IO.method_defined?(:timeout=)

        # Limits the wait for each answer on a socket. This does not help if the server stops in the
        # middle of a line.
        module InTime
          attr_accessor :patience

          def gets(...)
            raise Errno::ETIMEDOUT, "no answer within #{patience} s" unless wait_readable(patience)

            super
          end
        end

        private_constant :Strings, :SETTINGS, :TAKEN_OVER, :ASIDE, :InTime

        # @return [Array(Array<String>, Hash)] servers and options
        def self.address_of(source)
          case source
          when String then [[source], {}]
          when Array then [source, {}]
          when ::Dalli::Client
            options = source.instance_variable_get(:@options)
            [source.instance_variable_get(:@normalized_servers), options.slice(*TAKEN_OVER)]
          else
            unless source.respond_to?(:with)
              raise ArgumentError,
                    "a store in memcached needs servers, or a Dalli::Client (got #{source.class})"
            end

            source.with { |client| address_of(client) }
          end
        end

        def initialize(servers, settings, timeout)
          @timeout = timeout
          @deadline = Float::INFINITY
          @dalli = ::Dalli::Client.new(servers, SETTINGS.merge(settings, socket_timeout: timeout))
          @busy = false
        end

        # @param deadline [Float] a time of {Clock}, for all later requests
        def by(deadline)
          @deadline = deadline
          self
        end

        def add(key, value, ttl) = !!ask { @dalli.add(key, value, ttl, raw: true) }

        # @param ttl [Integer] 0: the key never expires
        def set(key, value, ttl) = ask { @dalli.set(key, value, ttl, raw: true) }

        # @return [Integer] one more than the last number; `first` if there is none
        def count(key, first, ttl) = ask { @dalli.incr(key, 1, ttl, first) }

        def read(key) = ask { @dalli.get(key, raw: true) }

        def read_with_cas(key) = ask { @dalli.get_cas(key) }

        # False if the value has changed since it was read.
        def replace(key, value, ttl, cas) =
          !!ask { @dalli.replace_cas(key, value, cas, ttl, raw: true) }

        # False if the value is gone, or has changed since it was read.
        def delete(key, cas) = !!ask { @dalli.delete_cas(key, cas) }

        def usable? = finished? && sockets.none? { |socket| socket.wait_readable(0) }

        # False while a request runs, and after a request that failed.
        def finished? = !@busy

        def close = @dalli.close

        # Dalli notices a fork by itself.
        def discard; end

        private

        def servers = @dalli.__send__(:ring).servers

        # Only plain sockets: data to read on a TLS socket may not mean that the server closed it.
        def sockets = servers.map(&:sock).grep(BasicSocket)

        # Without a Fiber scheduler, interrupts are masked until the answer arrives, because Dalli
        # would mistake some of them for server failures.
        def ask(&block)
          seconds = [@timeout, @deadline - Clock.now].min
          raise late unless seconds.positive?

          @busy = true
          answer =
            if Fiber.current_scheduler
              ask_aside(seconds, &block)
            else
              Thread.handle_interrupt(UNINTERRUPTED) do
                ASIDE ? ask_aside(seconds, &block) : ask_here(seconds, &block)
              end
            end
          @busy = false
          answer
        rescue ::Dalli::NetworkError, ::Dalli::RingError => e
          raise UnavailableError.new("#{e.class}: #{e.message}", code: :io)
        rescue ::Dalli::DalliError => e
          raise ProtocolError.new("#{e.class}: #{e.message}", code: :server_error)
        end

        def ask_here(seconds)
          sockets.each { |socket| socket.timeout = seconds }
          yield
        end

        # While the process is ending, no thread can start. So the request runs on this thread, and
        # {InTime} limits its time. {InTime} does not limit Dalli's handshake, so a request that
        # needs a new connection then fails at once.
        def ask_aside(seconds, &block)
          if Background.over?
            raise late unless sockets.size == servers.size

            sockets.each { |socket| socket.extend(InTime).patience = seconds }
          end
          answer = Aside.run(seconds, &block)
          raise late unless answer

          answer.first
        end

        def late = UnavailableError.new("memcached has not answered in time", code: :timed_out)
      end
    end
  end
end
