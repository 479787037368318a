# frozen_string_literal: true

require_relative "client_address"
require_relative "errors"
require_relative "hold"
require_relative "store/local"
require_relative "locking"
require_relative "store/support/source"
require_relative "store/support/status_reader"

module Plock
  # A place that keeps locks: one Redis (6.2 or later) or Valkey server, or a cluster of them. A
  # store also has this process's pools of connections to the servers. One store serves any number
  # of threads and fibers. It connects when it is first used, reconnects by itself, and continues to
  # work after a fork, in both processes.
  #
  # @example
  #   store = Plock::Store.open("redis://127.0.0.1:6379/1", pool_size: 4)
  #   store.hold(Plock.store_key("app:", "invoice 7"), 3_000, 2.0, nil) { |lease| lease.fence }
  #
  # @!method hold(key, ttl_ms, wait, report)
  #   Acquires the lock, runs the block, and releases the lock on every way out of the block.
  #
  #   The method calls `report.call(:acquire, error)` for each attempt that failed in the store, and
  #   `report.call(:release, error)` if the release failed. If the block took longer than the lease
  #   lasted, the method calls `report.call(:overrun, key, seconds_held, ttl)`, with the ttl in
  #   seconds.
  #   @param key [String] the raw key in the store
  #   @param ttl_ms [Integer] milliseconds, 5 to 31_622_400_000 (366 days), after which the lock
  #     expires if it is not released
  #   @param wait [Float] seconds to wait at most; 0.0 makes exactly one attempt
  #   @param report [#call, nil]
  #   @yieldparam lease [Hold] has `token`, `fence`, `key`, `ttl`, `held_for` and `valid?`
  #   @return [Object] the block's value
  #   @raise [TimeoutError] the lock was not acquired within `wait`; the block has not run
  #   @raise [Error] the store failed, and there is no report
  #
  # @!method hold_digest(prefix, key, secret, ttl_ms, wait, report)
  #   Like {#hold}, for APIs that hash their keys. The key in the store is {Plock.store_key} of the
  #   first three arguments. The block receives the owner token. If the lock was not acquired, the
  #   method returns the object `Plock::Store::UNACQUIRED`. The method tries until `wait` is over,
  #   even if the store fails. It allocates few objects.
  #   @param prefix [String] at most 64 bytes
  #   @param key [String]
  #   @param secret [String, nil]
  #   @param ttl_ms [Integer] as with {#hold}
  #   @param wait [Float] as with {#hold}
  #   @param report [#call] as with {#hold}
  #   @yieldparam token [String]
  #   @return [Object] the block's value, or `Plock::Store::UNACQUIRED`
  #
  # @!method lock_acquire(key, owner, ttl)
  #   Makes one attempt to take the lock for `owner`.
  #   @param key [String]
  #   @param owner [String]
  #   @param ttl [Integer] seconds
  #   @return [Boolean] false: the key is held
  #   @raise [Error] the store failed, or did not answer; if the server has granted the lock
  #     nevertheless, plock releases it
  #
  # @!method lock_release(key, owner)
  #   Releases the lock if, and only if, `owner` holds it.
  #   @param key [String]
  #   @param owner [String]
  #   @return [Boolean] did `owner` hold the lock?
  #   @raise [Error] the store failed
  #
  # @!method url
  #   @return [String] the URL, without user and password
  #
  # @!method sentinels
  #   @return [Array<Array(String, String)>] the host and port of each sentinel in the URL; empty if
  #     the URL names the server
  #
  # @!method primaries
  #   @return [Array<Array(String, String)>] the host and port of each primary of a Redis Cluster,
  #     as far as the store knows them; empty if the store is on no cluster
  #
  # @!method node_of(key)
  #   @param key [String] the raw key in the store
  #   @return [Array(String, String), nil] the host and port of the node of a Redis Cluster that
  #     serves the key, as far as the store knows; nil if the store is on no cluster
  #
  # @!method replicas
  #   @return [Integer] how many replicas must confirm a lease, unless a call says otherwise
  #
  # @!method close
  #   Closes the connections. The next use of the store opens new ones.
  #   @return [nil]
  #
  # @!method closed?
  #   @return [Boolean]
  class Store
    include Locking
    include Locking::Direct
    include StatusReader

    SECONDS = (0.001..3600.0).freeze
    FENCE_TTLS = (0.0..31_622_400.0).freeze
    POOL_SIZES = (1..1024).freeze
    DATABASES = (0..999_999_999).freeze
    ENCODINGS = %i[plain marshal].freeze
    VERIFY_MODES = %i[peer none].freeze

    # Each option, and the name of the check for its value: `:seconds` stands for `check_seconds`.
    # The check also converts the value for the engine.
    OPTIONS = {
      connect_timeout: :seconds, command_timeout: :seconds, attempt_timeout: :seconds,
      release_timeout: :seconds, unavailable_timeout: :seconds, fence_ttl: :fence_ttl,
      pool_size: :pool_size, replicas: :replicas, username: :text, password: :text,
      database: :database, ca_file: :file, ca_path: :file, cert: :file, key: :file,
      verify: :verify_mode, server_name: :text,
      sentinel_username: :text, sentinel_password: :text, sentinel_tls: :switch,
      sentinel_ca_file: :file, sentinel_ca_path: :file, sentinel_cert: :file, sentinel_key: :file,
      sentinel_verify: :verify_mode, sentinel_server_name: :name, encoding: :encoding
    }.freeze

    # The URLs of a store in the memory of this process.
    MEMORY = /\Amemory:(.*)\z/

    # The beginning of the URLs of a store in memcached.
    MEMCACHED = "memcached://"
    MEMCACHED_OPTIONS = %i[pool_size attempt_timeout unavailable_timeout].freeze

    # The URLs of a Redis Cluster.
    #
    # @api private
    CLUSTER = /\Arediss?\+cluster:/

    # The advice in error messages about a wrong source.
    KNOWN = "give a URL (redis://, rediss://, redis+sentinel://, redis+cluster://, unix://, " \
            "memcached://, local: or memory:) or a client of Redis"

    private_constant :MEMORY, :MEMCACHED, :MEMCACHED_OPTIONS, :KNOWN, :SECONDS, :FENCE_TTLS,
                     :POOL_SIZES, :DATABASES, :ENCODINGS, :VERIFY_MODES, :OPTIONS

    class << self
      include Source

      # Makes a store without connecting to the server. If there is no server, the first call fails.
      #
      # `source` is a URL or an existing client. A URL is
      # `redis://[user:password@]host[:port][/database]`, `rediss://` for TLS, or
      # `unix:///path/to/socket[?db=N]`, all with percent-encoding. The address, credentials, TLS
      # settings and database of a client are copied (see {ClientAddress}).
      # `redis+sentinel://host:26379,host:26379/NAME[/database]`, or `rediss+sentinel://`, uses the
      # primary that the sentinels know as NAME. User and password in the URL are for the
      # servers, not for the sentinels. `redis+cluster://host:port,host:port`, or
      # `rediss+cluster://`, uses a Redis Cluster to which these nodes belong. Options take
      # precedence over the URL or the client. An option whose value is nil counts as absent.
      #
      # @param source [String, Object]
      # @param options [Hash{Symbol => Object}]
      # @option options [Numeric] :connect_timeout (0.5) seconds, 0.001 to 3600, to open one
      #   connection, which includes name lookup, TLS and login
      # @option options [Numeric] :command_timeout (0.5) seconds, 0.001 to 3600, for one command
      # @option options [Numeric] :attempt_timeout (0.2) seconds, 0.001 to 3600, that the first
      #   attempt of a call always has, even if its `wait:` is shorter
      # @option options [Numeric] :release_timeout (0.5) seconds, 0.001 to 3600, that a release may
      #   take
      # @option options [Numeric] :unavailable_timeout (1.0) seconds, 0.001 to 3600, after which an
      #   acquire that cannot reach the server gives up, even if its `wait:` is longer
      # @option options [Numeric] :fence_ttl (3600) seconds, 0 to 31_622_400, for which Redis
      #   remembers a key's fence after the lease has ended. If the server's clock goes back by
      #   less than this, because it was set or because of a failover, fences keep growing
      # @option options [Integer] :pool_size (16) the largest number of connections, 1 to 1024
      # @option options [Integer] :replicas (0) how many replicas, 0 to 100, must confirm a lease
      #   before it counts; a call of {Locking#acquire} can specify another number
      # @option options [String] :username
      # @option options [String] :password
      # @option options [Integer] :database 0 or more
      # @option options [String, Pathname] :ca_file PEM file of the certificates to trust instead of
      #   the system's
      # @option options [String, Pathname] :ca_path a directory of such PEM files
      # @option options [String, Pathname] :cert PEM file of the client's certificate
      # @option options [String, Pathname] :key PEM file of the client's private key
      # @option options [Symbol] :release (:wait) `:background` sends the release at the end of a
      #   block, and does not wait for the answer
      # @option options [Symbol] :verify (:peer) `:none` trusts any server, and warns once for
      #   each address
      # @option options [String] :server_name the name for SNI, and to verify in the server's
      #   certificate, instead of the host's name
      # @option options [String] :sentinel_username
      # @option options [String] :sentinel_password
      # @option options [Boolean] :sentinel_tls TLS to the sentinels; by default, the scheme of the
      #   URL decides
      # @option options [String, Pathname] :sentinel_ca_file, and `:sentinel_ca_path`,
      #   `:sentinel_cert`, `:sentinel_key`, `:sentinel_verify`, `:sentinel_server_name`: the same
      #   for the sentinels. The default of each is the option for the servers. But if one of the
      #   two CA options is given, the other has no default. The same is true of the certificate
      #   and its key. An empty server name stands for the sentinel's host
      # @option options [Symbol] :encoding (:plain) `:marshal` writes a lock's value as Ruby's
      #   Marshal would, to share locks with a Moneta store
      # @option options [String] :secret the secret that hashes the keys, at least 16 bytes; by
      #   default `ENV["PLOCK_SECRET"]`
      # @option options [String, Symbol] :namespace keeps the keys of this application apart from
      #   those of others; 1 to 32 characters of A-Z a-z 0-9 _ . -
      # @option options [Numeric] :ttl (10) seconds, for calls of {Locking#acquire} without `ttl:`
      # @option options [Numeric] :wait (5) seconds, for calls of {Locking#acquire} without `wait:`
      # @option options [#warn] :logger receives the warnings that cannot be raised as errors. The
      #   default is the logger of {DefaultStore#configure}, or else the standard error stream.
      #   Warnings about leases that were garbage-collected always go to that default
      # @option options [Integer] :keys (65_536) number of keys that a local store has room for at a
      #   time, 16 to 1_048_576; it takes effect when the store's file is created
      # @return [Store, LocalStore, Testing::MemoryStore, Memcached] a {LocalStore} for `local:` and
      #   `local:/path`, which take `keys:`, `secret:`, `namespace:`, `ttl:`, `wait:` and `logger:`;
      #   a {Testing::MemoryStore} for `memory:` and `memory:NAME`, which take these options except
      #   `keys:`; a {Memcached} for `memcached://host:port,host:port`, which takes the options of a
      #   store in memory, and `pool_size:`, `attempt_timeout:` and `unavailable_timeout:`
      # @raise [ArgumentError] an unknown option
      # @raise [ConfigurationError] an invalid URL or value, or an option that this kind of store
      #   does not take
      # @raise [UnsupportedError] plock does not support this client, or the gem `dalli` is missing
      # @raise [UnavailableError] `source` is a pool that has no client to lend at the moment
      #
      # @example
      #   Plock::Store.open("rediss://locks.example:6380", username: "locks", password: secret,
      #                                                    ca_file: "/etc/ssl/our.pem")
      # @example
      #   Plock::Store.open(Redis.new(url: ENV["REDIS_URL"]), database: 3)
      def open(source, **options)
        if source.nil? || source == ""
          fail_with("the store is #{source.nil? ? "nil" : '""'}: #{KNOWN}")
        end

        source = plain(source)
        config = Locking::StoreConfig.extract(options)
        if String === source && source.start_with?(MEMCACHED)
          return open_memcached(source, options, config)
        end

        local = String === source && LocalStore.opens?(source)
        keys = options.delete(:keys) if local
        settings = check(options)
        Events::ActiveSupportBridge.attach
        return open_memory($1, settings, config) if String === source && MEMORY =~ source
        return open_local(source, keys, settings, config) if local

        unless String === source
          address = ClientAddress.of(source) or
            fail_with("cannot take the address of a Redis from this object")
          source = address.url
          settings = address.options.merge(settings)
        end
        store = connect(source, settings)
        store.config = CLUSTER.match?(source) ? config.for_cluster : config
        warn_once_of(store) if store.unverified?
        store
      end

      # @api private
      # Checks the arguments of {open}, without opening a file or connecting to a server.
      #
      # @raise [Error, ArgumentError] as {open}
      def check_settings(source, **options)
        source = plain(source)
        local = String === source && LocalStore.opens?(source)
        return self.open(source, **options) unless local

        Locking::StoreConfig.extract(options)
        LocalStore.place(source, options.delete(:keys))
        refuse_for_local(check(options))
      end

      private

      def open_memcached(url, options, config)
        require_relative "store/memcached"
        servers =
          url
            .delete_prefix(MEMCACHED)
            .split(",")
            .map { |server| server.include?("@") ? "#{MEMCACHED}#{server}" : server }
        fail_with("#{MEMCACHED} names no server: write #{MEMCACHED}host:port") if servers.empty?
        settings = options.compact
        useless = ((OPTIONS.keys & settings.keys) - MEMCACHED_OPTIONS).first
        fail_with("#{useless} is of no use to a store in memcached") if useless
        Memcached.new(servers, config: config, **settings)
      rescue LoadError => e
        raise UnsupportedError, e.message
      end

      def open_memory(name, settings, config)
        fail_with("#{settings.keys.first} is of no use to a store in memory") unless settings.empty?
        Testing::MemoryStore.new(name, config)
      end

      def open_local(url, keys, settings, config)
        refuse_for_local(settings)
        LocalStore.open(url, keys, config)
      end

      def refuse_for_local(settings)
        fail_with("#{settings.keys.first} is of no use to a local store") unless settings.empty?
      end

      # Warns once in each Ractor, because Ractors cannot share the list of warnings.
      def warn_once_of(store)
        told = Ractor.current[:plock_unverified_stores] ||= {}
        message = distrust(store)
        return if told[message]

        told[message] = true
        Log.warn(store.config.logger, message)
      end

      def check(options)
        options.each_with_object({}) do |(name, value), settings|
          kind = OPTIONS.fetch(name) { raise ArgumentError, "unknown keyword: #{name.inspect}" }
          settings[name] = __send__(:"check_#{kind}", name, value) unless value.nil?
        end
      end

      def check_seconds(name, value)
        fail_with("#{name} must be a number of seconds") unless value.is_a?(Numeric) && value.real?
        within(SECONDS, name, value.to_f)
      end

      def check_fence_ttl(name, value)
        fail_with("#{name} must be a number of seconds") unless value.is_a?(Numeric) && value.real?
        within(FENCE_TTLS, name, value.to_f.round(3))
      end

      def check_pool_size(name, value) = within(POOL_SIZES, name, integer(name, value))

      def check_replicas(name, value) =
        within(Locking::Arguments::REPLICAS, name, integer(name, value))

      def check_database(name, value) = within(DATABASES, name, integer(name, value))

      def check_verify_mode(name, value) = one_of(VERIFY_MODES, name, value)

      def check_encoding(name, value) = one_of(ENCODINGS, name, value)

      def check_switch(name, value)
        return value.to_s if [true, false].include?(value)

        fail_with("#{name} must be true or false (got #{value.inspect})")
      end

      def check_file(name, value)
        check_text(name, value.respond_to?(:to_path) ? value.to_path : value)
      end

      # The message never quotes the value, which may be a password.
      def check_text(name, value)
        fail_with("#{name} must be a String, not empty and without NUL") unless text?(value)
        value
      end

      # An empty name stands for the host's name.
      def check_name(name, value) = value == "" ? value : check_text(name, value)

      def text?(value) = value.is_a?(String) && !value.empty? && !value.b.include?("\0")

      def integer(name, value)
        value.is_a?(Integer) ? value : fail_with("#{name} must be an Integer")
      end

      def within(range, name, value)
        return value if range.cover?(value)

        fail_with("#{name} must be from #{range.first} to #{range.last} (got #{value})")
      end

      def one_of(values, name, value)
        return value if values.include?(value)

        fail_with("#{name} must be one of #{values.inspect} (got #{value.inspect})")
      end

      def fail_with(message)
        raise ConfigurationError, "Plock::Store.open: #{message}"
      end
    end

    # @return [Boolean] does the store use TLS with `verify: :none` or `sentinel_verify: :none`?
    def unverified? = unverified_servers? || unverified_sentinels?

    # @return [PoolStatus] counts the connections that this process uses for calls, without the
    #   connection that listens for turns
    def pool_status = PoolStatus.new(*pool_counts)

    # @api private
    # @param dump [String] from {Hold#dump}
    # @param ttl [Float, nil] seconds from now on; nil: as many as the lease was granted for
    # @param heir [String, nil] the dump whose token the adopted lease gets; nil: a new token
    # @yieldparam hold [Hold] as soon as the lease is ours
    # @return [Hold, nil] nil: the lease was already lost or adopted
    # @raise [ArgumentError] `dump` is not the dump of a hold
    def adopt_hold(dump, renew, max_hold, watch, ttl = nil, heir = nil, replicas: nil, &given)
      key, value, _fence, granted, share = Hold.read(dump)
      heir &&= Hold.read(heir)[1]
      adopt_owner(key, value, ttl || granted, renew, max_hold, watch, share, heir, replicas, &given)
    end
  end
end
