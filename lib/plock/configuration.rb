# frozen_string_literal: true

require_relative "errors"
require_relative "locking/store_config"
require_relative "log"
require_relative "settings"

module Plock
  # The configuration of the default store, as {Plock.configure} yields it. It cannot be changed
  # once the store is in use.
  #
  # @example
  #   Plock.configure do |c|
  #     c.url = "rediss://locks.internal:6380"
  #     c.secret = ENV.fetch("LOCK_SECRET")
  #     c.namespace = "billing"
  #     c.options = { pool_size: 4, ca_file: "/etc/ssl/internal.pem" }
  #   end
  class Configuration
    # The environment variable that contains the default of {#url}.
    URL_VARIABLE = "PLOCK_URL"

    # @api private
    # The environment variable that turns the structured log on. It is named here, because {Logs}
    # is loaded only if the log is turned on.
    LOG_VARIABLE = "PLOCK_LOG"

    # The environment variable that contains the default of {#namespace}.
    NAMESPACE_VARIABLE = "PLOCK_NAMESPACE"

    # @api private
    # The variables in which Rails, Rack and others name an application's environment.
    ENVIRONMENT_VARIABLES = %w[RAILS_ENV RACK_ENV APP_ENV].freeze

    # Settings that do not depend on which store is used.
    NAMING = %i[secret namespace ttl wait].freeze
    private_constant :NAMING

    # @return [String, Object, nil] a URL or a Redis client, for {Store.open}; by default
    #   `ENV["PLOCK_URL"]`. If neither is set, plock opens a {LocalStore} in its default place and
    #   logs a warning. In production, it raises instead.
    attr_accessor :url

    # @return [Locking, #call, String, nil] the store, instead of {#url}. An opened store may be a
    #   {Store::Database}, {Store::Advisory} or {Store::Memcached}, or any other store. A callable
    #   is called when the store is first used, and must return a store. `"database"` and
    #   `"advisory"` are the stores in the database of `ActiveRecord::Base`, or of the class that
    #   `options[:model]` names.
    attr_reader :store

    # @return [Hash{Symbol => Object}] further options for {Store.open}
    attr_accessor :options

    # @param value [String, nil] at least 16 bytes, the same in every process; keys are hashed
    #   with it. By default `ENV["PLOCK_SECRET"]`. Without a secret, keys are hashed plainly, and
    #   a reader of the store can guess them.
    attr_writer :secret

    # @return [String, nil] keeps this application's keys apart from the keys of other
    #   applications in the same store; by default `ENV["PLOCK_NAMESPACE"]`. It has 1 to 32 of the
    #   characters A-Z a-z 0-9 _ . -
    attr_accessor :namespace

    # @return [Numeric, nil] the TTL of a call that does not pass `ttl:`, in seconds; by default
    #   10
    attr_accessor :ttl

    # @return [Numeric, nil] the longest wait of a call that does not pass `wait:`, in seconds; by
    #   default 5
    attr_accessor :wait

    # @return [#warn, nil] receives warnings of problems that plock cannot raise as errors; nil:
    #   they go to the standard error stream
    attr_accessor :logger

    # @return [Hash{Symbol => Object}, nil] the settings of the structured log, see {Logs}; nil:
    #   none were given
    attr_reader :log

    # Turns the structured log on, as `PLOCK_LOG` does. The setting is read when
    # {DefaultStore#configure} ends.
    #
    # @param value [Hash, Symbol, String, nil] a level, or `level:`, `log_keys:`, `slow_wait:` and
    #   `long_hold:` as for {Logs.start}. If there is no level, `PLOCK_LOG` sets it
    # @raise [ConfigurationError] an unknown name or value
    #
    # @example
    #   Plock.configure { |c| c.log = { level: :info, slow_wait: 0.5, log_keys: true } }
    def log=(value)
      @log = value.nil? ? nil : Logs.check(value)
    end

    # @api private
    def initialize
      @options = {}
    end

    # @param value [Locking, #call, String, Symbol, nil]
    # @raise [ConfigurationError] the value is none of these
    def store=(value)
      value = value.to_s if value.is_a?(Symbol)
      unless value.nil? || Locking === value || Settings::STORES.include?(value) ||
             value.respond_to?(:call)
        misconfigured(
          "store must be an opened store, a callable that returns one, or one of " \
            "#{Settings::STORES.join(", ")} (got #{value.class}); a URL or a client of Redis " \
            "belongs in url"
        )
      end
      @store = value
    end

    # @api private
    # @return [Locking] the store that was given, or a new one
    def open
      misplaced = Settings::KEY_NAMING.find { |name| options.key?(name) }
      if misplaced
        misconfigured(
          "options have a #{misplaced}, which would not count there: say c.#{misplaced} = …"
        )
      end
      return given_store if @store

      source = url.nil? ? Configuration.from_environment(URL_VARIABLE) : url
      Store.open(source || on_this_host, **options, **store_options.compact)
    end

    # @api private
    # @param value [Object] the value to compare with; if it is omitted, the setting need only be
    #   neither nil nor ""
    # @return [Boolean] does the setting have this value, or any value if `value` is omitted?
    def set?(name, value = (any = true))
      present = instance_variable_get(:"@#{name}")
      any ? !present.nil? && present != "" : present == value
    end

    # @api private
    # Looks for the first setting that {#open} would refuse. It opens no file, and connects to no
    # server.
    #
    # @return [Array(Symbol, StandardError), nil] the name of that setting, and why it is refused
    def first_fault
      return if @store && !@store.is_a?(String)

      names = NAMING + (@store ? [:store] : %i[url options])
      names.each_with_index do |name, index|
        probe = dup.without(names.drop(index + 1))
        NAMING.include?(name) ? probe.check_naming : probe.check_place
      rescue Error, ArgumentError => e
        return [name, e]
      end
      nil
    end

    # @api private
    # Opens a store at another place. The new store names its keys as the default store does.
    def open_at(url) = Store.open(url, **store_options)

    # @api private
    # If {#store} is a callable, this does not call it.
    #
    # @return [Locking::StoreConfig] how the default store names its keys, and the defaults of its
    #   calls
    def store_config
      Locking === @store ? @store.config : Locking::StoreConfig.new(**store_options.compact)
    end

    # @api private
    # @return [String, nil] the variable's value; nil: the variable is not set
    # @raise [ConfigurationError] the variable is empty, so its meaning is unclear
    def self.from_environment(variable)
      value = ENV[variable]
      return value unless value == ""

      raise ConfigurationError, "#{variable} is empty: set it to a value, or unset it"
    end

    # @api private
    # @return [String, nil] the name of the first variable whose value is "production"
    def self.production_variable
      ENVIRONMENT_VARIABLES.find { |name| ENV[name] == "production" }
    end

    # @api private
    # Called at the end of a test, so that {warns?} returns true again.
    def self.reset
      @warned = nil
    end

    # @api private
    # @return [Boolean] must plock warn that no store is configured? True only at the first call in
    #   this process.
    def self.warns?
      return false if @warned == Process.pid

      @warned = Process.pid
      true
    end

    # @return [String] shows neither the URL, which may have a password in it, nor the secret
    def inspect
      "#<#{self.class}#{" in use" if frozen?}>"
    end

    protected

    # Unsets the named settings. An unset `namespace` is not read from the environment either.
    def without(names)
      names.each { |name| instance_variable_set(:"@#{name}", name == :options ? {} : nil) }
      @unread = names
      self
    end

    def check_naming = Store.check_settings("memory:", **store_options.compact)

    # Checks nothing if no store is configured, because the first lock reports that the store is
    # missing.
    def check_place
      return given_store if @store

      source = url.nil? ? Configuration.from_environment(URL_VARIABLE) : url
      Store.check_settings(source, **options, **store_options.compact) if source
    end

    private

    def store_options
      { namespace: namespace_meant, secret: @secret, ttl: ttl, wait: wait, logger: logger }
    end

    def namespace_meant
      return namespace if namespace || @unread&.include?(:namespace)

      Configuration.from_environment(NAMESPACE_VARIABLE)
    end

    def given_store
      return in_database if @store.is_a?(String)

      store = @store.respond_to?(:call) ? @store.call : @store
      unless Locking === store
        misconfigured("the callable store must return an opened store (got #{store.class})")
      end
      refuse_contradictions(store.config)
      store
    end

    # Opens the store in the application's database, and passes `options` on to the store's class.
    def in_database
      unless url.nil?
        misconfigured(
          "url is of no use with store: #{@store}, which is the application's own database"
        )
      end
      require_relative "store/#{@store}"
      rest = options.dup
      model = rest.delete(:model) || "ActiveRecord::Base"
      Store.const_get(@store.capitalize).new(
        model.is_a?(String) ? Object.const_get(model) : model, **rest, **store_options.compact
      )
    end

    # The given store was opened with settings of its own. This method raises if the configured
    # settings contradict them. Whichever of the two plock used, it might lock keys that the user
    # did not mean.
    def refuse_contradictions(config)
      of_no_use = { url: url, options: (options unless options.empty?) }.compact.keys.first
      if of_no_use
        misconfigured("#{of_no_use} is of no use with store: name it where that is opened")
      end
      told = { namespace: namespace_meant, ttl: ttl, wait: wait }.compact
      other =
        told.find do |name, value|
          name == :namespace ? value.to_s != config.namespace : value != config.public_send(name)
        end
      misconfigured("#{other.first} is #{other.last.inspect}, and of the store " \
                    "#{config.public_send(other.first).inspect}: name it where the store is " \
                    "opened") if other
      if @secret.nil? || Locking::Fingerprint.of(@secret, config.namespace) == config.fingerprint
        return
      end

      misconfigured(
        "the secret is another one than that of the store: name it where the store is opened"
      )
    end

    def misconfigured(message)
      raise ConfigurationError, "Plock.configure: #{message}"
    end

    # A local store is right on a developer's machine. But on several machines, the processes of
    # one machine would not exclude those of another, and no error would say so.
    def on_this_host
      name = Configuration.production_variable
      if name
        raise ConfigurationError,
              "Plock has no store, and #{name} says production: set #{URL_VARIABLE} or " \
              "Plock.configure { |c| c.url = … }, to redis://…, or to local: if all processes " \
              "run on this one host"
      end

      if Configuration.warns?
        Log.warn(logger, "Plock has no store configured and uses local:, which excludes only " \
                         "processes of this host; set #{URL_VARIABLE} to local: to say that " \
                         "this is meant, or to redis://… to share locks among machines")
      end
      "local:"
    end
  end
end
