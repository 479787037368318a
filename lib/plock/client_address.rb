# frozen_string_literal: true

require_relative "errors"
require_relative "client_address/moneta_chain"

module Plock
  # The address, credentials, TLS settings and database number of an existing Redis client, for a
  # store of plock. The timeouts of the client, and its prefix for keys, are not taken over.
  #
  # It reads clients of `redis` (4 to 6), of `redis-client` and its decorators and pools, a
  # `ConnectionPool` of any of these, Moneta over Redis, and `Parse::Cache::Redis`. It recognises
  # them by the names of their classes, so it loads none of these gems. It sends nothing over the
  # client, and does not keep it.
  #
  # @example
  #   address = Plock::ClientAddress.of(Redis.new(url: "redis://:secret@db1:6380/2"))
  #   address.url     # => "redis://db1:6380"
  #   address.options # => {password: "secret", database: 2}
  class ClientAddress
    # loaded later, because it loads Ruby's OpenSSL, which takes long
    autoload :TLSParameters, File.expand_path("client_address/tls_parameters", __dir__)

    # Which method reads an object whose class has this ancestor; the nearest ancestor decides.
    READERS = {
      "Redis" => :of_redis,
      "RedisClient::Common" => :of_configured,
      "RedisClient::Decorator::Client" => :of_configured,
      "RedisClient::Config::Common" => :of_config,
      "ConnectionPool" => :of_pool,
      "ConnectionPool::Wrapper" => :of_pool_wrapper,
      "Moneta::Proxy" => :of_moneta,
      "Moneta::Adapters::Redis" => :of_moneta,
      "Parse::Cache::Redis" => :of_parse_cache,
      "Parse::Cache::ScopedView" => :of_parse_view,
      "Redis::Cluster" => :refuse,
      "RedisClient::Cluster" => :refuse,
      "Redis::Distributed" => :refuse,
      "RedisClient::HashRing" => :refuse
    }.freeze

    private_constant :READERS

    # @return [String] for {Plock::Store.open}
    attr_reader :url

    # @return [Hash{Symbol => Object}] further options for {Plock::Store.open}; it holds the
    #   password
    attr_reader :options

    # @param client [Object]
    # @return [ClientAddress, nil] nil if it is no client of Redis, or one that changes keys or
    #   values on their way
    # @raise [UnsupportedError] plock cannot replace the client: a cluster, Sentinel, certificates
    #   that exist only in memory
    # @raise [UnavailableError] a pool that has no client to lend at the moment
    def self.of(client)
      class_of(client).ancestors.each do |ancestor|
        reader = READERS[ancestor.name]
        return __send__(reader, client) if reader
      end
      nil
    end

    class << self
      private

      # Works for a BasicObject, too, such as a pool's wrapper.
      def class_of(client)
        Kernel.instance_method(:class).bind_call(client)
      end

      # redis 4 keeps its own options; from 5 on there is a redis-client inside.
      def of_redis(redis)
        # redis 3 would send it as a command
        refuse_old_redis(redis) unless redis.respond_to?(:_client)
        client = redis._client
        return of(client) || refuse(redis) unless client.respond_to?(:options)

        options = client.options
        refuse(redis, "Sentinel") if options[:sentinels]
        build(
          host: options[:host], port: options[:port], path: options[:path],
          username: options[:username], password: options[:password], database: options[:db],
          tls: options[:ssl] && (options[:ssl_params] || {})
        )
      end

      def refuse_old_redis(redis)
        raise UnsupportedError.new(
          "plock cannot take the address from a client of the gem redis before version 4 " \
            "(#{redis.class}): update the gem, or give plock the server's URL in the client's " \
            "place",
          code: :unsupported
        )
      end

      def of_configured(client)
        of(client.config) || refuse(client)
      end

      def of_config(config)
        refuse(config, "Sentinel") if config.respond_to?(:sentinel?) && config.sentinel?
        build(
          host: config.host, port: config.port, path: config.path, username: config.username,
          password: config.password, database: config.db,
          tls: config.ssl? && (config.ssl_params || {})
        )
      end

      def of_pool(pool)
        borrow(pool) { |client| of(client) }
      end

      def of_pool_wrapper(wrapper)
        of_pool(wrapper.wrapped_pool)
      end

      def of_moneta(store)
        chain = MonetaChain.new(store)
        of(chain.adapter.backend)&.with_encoding(chain.encoding) if chain.redis? && chain.encoding
      end

      # The cache's options may say more than its URL, so one of the stores in its pool is asked.
      # Its locks bypass Moneta, so it does not matter how Moneta writes values.
      def of_parse_cache(cache)
        pool = cache.instance_variable_get(:@pool)
        return new(cache.url, {}) unless pool.respond_to?(:pool)

        borrow(pool.pool) { |store| of(MonetaChain.new(store).adapter.backend) }
      end

      # One application's view of a shared cache, to which it leaves the locks.
      def of_parse_view(view)
        of(view.backend)
      end

      def borrow(pool, &block)
        pool.with(timeout: 0, &block) # the caller's patience is not for this
      rescue Plock::Error
        raise
      rescue StandardError => e # the application's code makes the clients
        raise UnavailableError.new(
          "the pool lent no client to take the address from: #{e.message}",
          code: :saturated
        )
      end

      def build(host:, port:, path:, username:, password:, database:, tls:)
        options = {}
        options[:username] = username.to_s if password && username && username != "default"
        options[:password] = password.to_s if password
        options[:database] = Integer(database) unless database.to_i.zero?
        options.update(TLSParameters.read(tls)) if tls
        new(locate(host, port, path, tls), options)
      end

      def locate(host, port, path, tls)
        return "unix://#{escape(File.expand_path(path))}" if path

        host = "[#{host}]" if host.include?(":") && !host.start_with?("[")
        "#{tls ? "rediss" : "redis"}://#{host}:#{port}"
      end

      def escape(path)
        path.b.gsub(%r{[^A-Za-z0-9_.~/-]}n) { |byte| format("%%%02X", byte.ord) }
      end

      def refuse(client, what = class_of(client).name)
        raise UnsupportedError.new("plock cannot lock through #{what} yet", code: :unsupported)
      end
    end

    # @api private
    def initialize(url, options)
      @url = url.dup.freeze
      @options = options.freeze
    end

    # @api private
    # @param encoding [Symbol] `:plain` or `:marshal`: how the lock's value is written
    # @return [ClientAddress]
    def with_encoding(encoding)
      encoding == :plain ? self : ClientAddress.new(@url, @options.merge(encoding: encoding))
    end

    # @return [String] names no server and no credentials: a cache may have its password in the URL
    def inspect
      "#<#{self.class}>"
    end
  end
end
