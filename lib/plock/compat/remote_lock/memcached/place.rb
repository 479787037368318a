# frozen_string_literal: true

require_relative "client"

class RemoteLock
  # Locks in memcached as the original gem writes them.
  #
  # @api private
  module Memcached
    # The locks on one group of servers, and the store for their turns. A turn is a lease of plock;
    # see {QueuedAcquire}.
    class Place
      # The options that are copied from a client, in addition to those of {Client.address_of}.
      TAKEN_OVER = %i[namespace namespace_separator].freeze

      KEY_MAX_BYTES = 250
      CONNECTIONS = 5
      TIMEOUT_S = 0.5
      NAME_CHARACTERS = 32 # the most that plock's namespace may have
      QUIET = { protocol: :meta, silence_marshal_warning: true }.freeze
      private_constant :TAKEN_OVER, :KEY_MAX_BYTES, :CONNECTIONS, :TIMEOUT_S, :NAME_CHARACTERS,
                       :QUIET

      class << self
        # @param source [Dalli::Client, MemCache, #with, String, Array<String>]
        # @raise [ArgumentError] the source is none of these
        def of(source)
          servers, settings = describe(source)
          Stores.shared([servers, settings.sort_by(&:first)]) { new(servers, settings) }
        end

        private

        def describe(source)
          case source
          when String, Array, ::Dalli::Client then with_namespace(source)
          else
            next_to_it = Kernel.instance_method(:class).bind_call(source).ancestors.map(&:name)
            if next_to_it.include?("MemCache") then of_memcache_client(source)
            elsif source.respond_to?(:with) then source.with { |client| describe(client) }
            else
              raise ArgumentError, "RemoteLock::Adapters::Memcached needs a client of memcached, " \
                                   "or a pool of such (got #{source.class})"
            end
          end
        end

        def with_namespace(source)
          servers, settings = Client.address_of(source)
          return [servers, settings] unless ::Dalli::Client === source

          options = source.instance_variable_get(:@options).slice(*TAKEN_OVER)
          [servers, settings.merge(options.compact)]
        end

        # Dalli can use the same list of servers, because it maps each key to the same server as
        # memcache-client does.
        def of_memcache_client(client)
          servers = client.servers.map { |server| "#{server.host}:#{server.port}:#{server.weight}" }
          return [servers, {}] unless client.namespace

          separator = client.instance_variable_get(:@namespace_separator)
          [servers, { namespace: client.namespace, namespace_separator: separator }.compact]
        end
      end

      attr_reader :turns

      # @param settings [Hash{Symbol => Object}] for Dalli
      def initialize(servers, settings)
        @turns = turns_at(servers, settings)
        @room = KEY_MAX_BYTES - prefix_of(settings).bytesize
        @pool = Plock::Store::Pool.new(CONNECTIONS) { Client.new(servers, settings, TIMEOUT_S) }
      end

      # @return [Boolean] true if the key was free, and is ours now
      def take(key, owner, seconds) = work(key) { |client| client.add(key, owner, seconds.ceil) }

      def held?(key, owner) = Client.same?(work(key) { |client| client.read(key) }, owner)

      # @return [Boolean] whether this owner held the key; if so, the key is free now
      def free(key, owner)
        work(key) do |client|
          value, version = client.read_with_cas(key)
          Client.same?(value, owner) && client.delete(key, version)
        end
      end

      private

      # Returns the store of the turns. Each namespace of the client has its own turns, because the
      # same key in two namespaces is two different locks.
      def turns_at(servers, settings)
        prefix = prefix_of(settings)
        Plock::Store::Memcached.new(
          ::Dalli::Client.new(servers, settings.merge(QUIET)), # supplies only its settings
          namespace: (Plock.digest(prefix)[0, NAME_CHARACTERS] unless prefix.empty?)
        )
      end

      def prefix_of(settings)
        return "" unless settings[:namespace]

        "#{settings[:namespace]}#{settings.fetch(:namespace_separator, ":")}"
      end

      def work(key, &block)
        check(key)
        @pool.with(Plock::Clock.now + TIMEOUT_S, &block)
      end

      def check(key)
        return if key.bytesize.between?(1, @room) && !key.b.match?(/[\x00-\x20\x7F]/n)

        raise ArgumentError, "a key in memcached is 1 to #{@room} bytes, without blanks and " \
                             "control characters (got #{key.inspect})"
      end
    end
  end
end
