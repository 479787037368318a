# frozen_string_literal: true

require_relative "errors"
require_relative "client_address/moneta_chain"

module Plock
  # The address, credentials, TLS settings and database number of an existing Redis client, for a
  # plock store. The client's timeouts and its key prefix are not copied.
  #
  # {.of} reads clients of `redis` (4 to 6), of `redis-client` and its decorators and pools, of
  # `redis-clustering` and `redis-cluster-client`, a `ConnectionPool` of any of these, Moneta over
  # Redis, and `Parse::Cache::Redis`. It recognises clients by the names of their classes, so it
  # loads none of these gems. It sends nothing through the client, and does not keep a reference
  # to it.
  #
  # @example
  #   address = Plock::ClientAddress.of(Redis.new(url: "redis://:secret@db1:6380/2"))
  #   address.url     # => "redis://db1:6380"
  #   address.options # => {password: "secret", database: 2}
  class ClientAddress
    # For the name of each class or module, the method that reads its objects. The class of an
    # object is looked up first, and then the ancestors of that class, nearest first.
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
      "Redis::Cluster" => :of_redis_cluster,
      "RedisClient::Cluster" => :of_configured,
      "RedisClient::ClusterConfig" => :of_cluster,
      "Redis::Distributed" => :refuse,
      "RedisClient::HashRing" => :refuse
    }.freeze

    private_constant :READERS

    # @return [String] for {Plock::Store.open}
    attr_reader :url

    # @return [Hash{Symbol => Object}] further options for {Plock::Store.open}, including the
    #   password
    attr_reader :options

    # @param client [Object]
    # @return [ClientAddress, nil] nil if the object is not a Redis client, or is a client that
    #   changes keys or values before it sends them
    # @raise [UnsupportedError] plock cannot replace the client. For example, the client reads from
    #   replicas, uses several servers without a cluster, or has certificates only in memory.
    # @raise [UnavailableError] the pool has no client to lend at the moment
    def self.of(client)
      class_of(client).ancestors.each do |ancestor|
        reader = READERS[ancestor.name]
        return __send__(reader, client) if reader
      end
      nil
    end

    class << self
      private

      # Returns the class of any object, even of a BasicObject such as a pool's wrapper.
      def class_of(client) = Kernel.instance_method(:class).bind_call(client)

      # In redis 4, a client has options of its own. From redis 5 on, a client wraps a redis-client.
      def of_redis(redis)
        unless redis.respond_to?(:_client) # redis 3 would send it to the server as a command
          raise UnsupportedError,
                "plock cannot take the address from a client of the gem redis before version 4 " \
                "(#{redis.class}): update the gem, or give plock the server's URL in the " \
                "client's place"
        end
        client = redis._client
        return of(client) || refuse(redis) unless client.respond_to?(:options)

        options = client.options
        return of_redis4_sentinels(options) if options[:sentinels]

        build(
          host: options[:host], port: options[:port], path: options[:path],
          username: options[:username], password: options[:password], database: options[:db],
          tls: options[:ssl] && (options[:ssl_params] || {})
        )
      end

      def of_configured(client)
        (of(client.config) if client.respond_to?(:config)) || refuse(client)
      end

      def of_config(config)
        return of_sentinels(config) if config.respond_to?(:sentinel?) && config.sentinel?

        build(
          host: config.host, port: config.port, path: config.path, username: config.username,
          password: config.password, database: config.db,
          tls: config.ssl? && (config.ssl_params || {})
        )
      end

      def of_sentinels(config)
        refuse_replicas(config.instance_variable_get(:@role))
        sentinels = given_sentinels(config)
        sentinel = sentinels.first
        refuse(config, "sentinels at Unix sockets") if sentinels.any?(&:path)
        build(
          sentinels: sentinels.map { |one| [one.host, one.port] }, name: config.name.to_s,
          sentinel_username: sentinel.username, sentinel_password: sentinel.password,
          sentinel_tls: sentinel.ssl? && (sentinel.ssl_params || {}), username: config.username,
          password: config.password, database: config.db,
          tls: config.ssl? && (config.ssl_params || {})
        )
      end

      # Returns sentinels that all have the same TLS settings. After a client has connected, its
      # list also contains sentinels that other sentinels named. The named sentinels have the
      # client's common settings. If the application gave other settings for its sentinels, the
      # sentinels with the common settings are left out.
      def given_sentinels(config)
        groups = config.sentinels.group_by { |one| one.ssl? && (one.ssl_params || {}) }
        if groups.size > 1
          common = config.instance_variable_get(:@sentinel_client_config).to_h
          groups.delete((common[:ssl] || false) && (common[:ssl_params] || {}))
        end
        refuse(config, "sentinels that differ in their TLS settings") if groups.size > 1
        groups.values.first
      end

      def refuse_replicas(role)
        return if [nil, "master"].include?(role&.to_s)

        refuse(nil, "replicas that sentinels name")
      end

      # In redis 4, `host` is the primary's name, and the first sentinel's credentials are used.
      def of_redis4_sentinels(options)
        refuse_replicas(options[:role])
        sentinels = options[:sentinels].map { |one| one.transform_keys(&:to_sym) }
        tls = options[:ssl] && (options[:ssl_params] || {})
        build(
          sentinels: sentinels.map { |one| [one[:host], one[:port] || 26_379] },
          name: options[:host].to_s, sentinel_username: sentinels[0][:username],
          sentinel_password: sentinels[0][:password], sentinel_tls: tls,
          username: options[:username], password: options[:password], database: options[:db],
          tls: tls
        )
      end

      # In redis 4, Redis::Cluster is not a client that applications use, so plock refuses it.
      def of_redis_cluster(redis)
        refuse(redis) unless redis.respond_to?(:_client)
        of(redis._client) || refuse(redis)
      end

      # All startup nodes have the same credentials, so this method reads those of the first node.
      def of_cluster(config)
        unless config.instance_variable_get(:@fixed_hostname).to_s.empty?
          refuse(config, "a cluster with fixed_hostname")
        end
        nodes = config.startup_nodes.values
        node = nodes.first
        username = node[:username]
        password = node[:password]
        password = password.call(username) if password.respond_to?(:call)
        build(
          cluster: nodes.first(16).map { |one| [one[:host], one[:port]] }, username: username,
          password: password, database: 0, tls: node[:ssl] && (node[:ssl_params] || {})
        )
      end

      def of_pool(pool) = borrow(pool) { |client| of(client) }

      def of_pool_wrapper(wrapper) = of_pool(wrapper.wrapped_pool)

      def of_moneta(store)
        chain = MonetaChain.new(store)
        of(chain.adapter.backend)&.with_encoding(chain.encoding) if chain.redis? && chain.encoding
      end

      # The cache may have options that are not in its URL. So this borrows a store from the cache's
      # pool, and reads that store's client. The cache's locks bypass Moneta, so it does not matter
      # how Moneta writes values.
      def of_parse_cache(cache)
        pool = cache.instance_variable_get(:@pool)
        return new(cache.url, {}) unless pool.respond_to?(:pool)

        borrow(pool.pool) { |store| of(MonetaChain.new(store).adapter.backend) }
      end

      # A view is one application's part of a shared cache. A lock belongs to the whole cache, so
      # this method reads the client of that cache.
      def of_parse_view(view) = of(view.backend)

      def borrow(pool, &block)
        pool.with(timeout: 0, &block) # does not wait for a client, as no `wait:` applies here
      rescue Plock::Error
        raise
      rescue StandardError => e # the pool runs application code, which may raise any error
        raise UnavailableError.new(
          "the pool lent no client to take the address from: #{e.message}",
          code: :saturated
        )
      end

      # Builds the address of a server, of a cluster, or of the primary that sentinels name.
      def build(
        username:, password:, database:, tls:, host: nil, port: nil, path: nil, cluster: nil,
        sentinels: nil, name: nil, sentinel_username: nil, sentinel_password: nil,
        sentinel_tls: nil
      )
        options = credentials(username, password)
        options[:database] = Integer(database) unless database.to_i.zero?
        # loaded only when it is needed, because loading Ruby's OpenSSL is slow
        require_relative "client_address/tls_parameters" if tls || sentinel_tls
        parameters = tls ? TLSParameters.read(tls) : {}
        options.update(parameters)
        scheme = tls ? "rediss" : "redis"
        return new("#{scheme}+cluster://#{places_of(cluster)}", options) if cluster
        return new("unix://#{escape(File.expand_path(path))}", options) if path
        return new("#{scheme}://#{place_of(host, port)}", options) unless sentinels

        of_theirs = credentials(sentinel_username, sentinel_password)
        of_theirs[:tls] = !!sentinel_tls unless !!sentinel_tls == !!tls
        of_theirs.update(TLSParameters.of_sentinels(sentinel_tls, parameters)) if sentinel_tls
        options.update(of_theirs.transform_keys { |key| :"sentinel_#{key}" })
        new("#{scheme}+sentinel://#{places_of(sentinels)}/#{escape(name)}", options)
      end

      def credentials(username, password)
        options = {}
        options[:username] = username.to_s if password && username && username != "default"
        options[:password] = password.to_s if password
        options
      end

      def places_of(nodes) = nodes.map { |node| place_of(*node) }.join(",")

      def place_of(host, port)
        host = "[#{host}]" if host.include?(":") && !host.start_with?("[")
        "#{host}:#{port}"
      end

      def escape(path) = path.b.gsub(%r{[^A-Za-z0-9_.~/-]}n) { |byte| format("%%%02X", byte.ord) }

      def refuse(client, what = class_of(client).name)
        raise UnsupportedError, "plock cannot lock through #{what} yet"
      end
    end

    # @api private
    def initialize(url, options)
      @url = url.dup.freeze
      @options = options.freeze
    end

    # @api private
    # @param encoding [Symbol] `:plain` or `:marshal`: how the lock's value is written
    def with_encoding(encoding)
      encoding == :plain ? self : ClientAddress.new(@url, @options.merge(encoding: encoding))
    end

    # @return [String] without the URL, because a cache may have its password in the URL
    def inspect = "#<#{self.class}>"
  end
end
