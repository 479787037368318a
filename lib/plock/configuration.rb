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
    # The environment variable with the default of {#url}.
    URL_VARIABLE = "PLOCK_URL"

    # The environment variable with the default of {#namespace}.
    NAMESPACE_VARIABLE = "PLOCK_NAMESPACE"

    # @api private
    # The variables by which Rails, Rack and others name the environment of an application.
    ENVIRONMENT_VARIABLES = %w[RAILS_ENV RACK_ENV APP_ENV].freeze

    # @return [String, Object, nil] what {Store.open} takes: a URL or a client of Redis; by default
    #   `ENV["PLOCK_URL"]`. Without either, plock opens a {LocalStore} in its default place and
    #   logs a warning; in production it raises.
    attr_accessor :url

    # @return [Locking, #call, String, nil] a store that is opened already, in the place of {#url}:
    #   a {Store::Database}, {Store::Advisory} or {Store::Memcached}, or any other. A callable is
    #   called when the store is first used, and returns one. `"database"` and `"advisory"` are the
    #   stores in the database of `ActiveRecord::Base`, or of the class that `options[:model]`
    #   names.
    attr_reader :store

    # @return [Hash{Symbol => Object}] further options for {Store.open}
    attr_accessor :options

    # @param value [String, nil] at least 16 bytes, the same in every process; keys are hashed with
    #   it. By default `ENV["PLOCK_SECRET"]`, without which they are hashed plainly, and a reader
    #   of the store can guess them.
    attr_writer :secret

    # @return [String, nil] 1 to 32 of A-Z a-z 0-9 _ . - that keep this application's keys apart
    #   from others' in the same store; by default `ENV["PLOCK_NAMESPACE"]`
    attr_accessor :namespace

    # @return [Numeric, nil] seconds, if a call does not pass `ttl:`; by default 10
    attr_accessor :ttl

    # @return [Numeric, nil] seconds, if a call does not pass `wait:`; by default 5
    attr_accessor :wait

    # @return [#warn, nil] receives warnings that cannot be raised; by default the standard error
    #   stream
    attr_accessor :logger

    # @api private
    def initialize
      @options = {}
    end

    # @param value [Locking, #call, String, Symbol, nil]
    # @raise [ConfigurationError] it is none of these
    def store=(value)
      value = value.to_s if value.is_a?(Symbol)
      unless value.nil? || Locking === value || Settings::STORES.include?(value) ||
             value.respond_to?(:call)
        misconfigured(
          "store must be an opened store, a callable that returns one, or one of " \
            "#{Settings::STORES.join(", ")} (got #{value.class}); a URL or a client of Redis " \
            "is a url"
        )
      end
      @store = value
    end

    # @api private
    # @return [Locking] the store that was given, or a new one
    # @raise [ConfigurationError]
    def open
      misplaced = Settings::KEY_NAMING.find { |name| options.key?(name) }
      if misplaced
        misconfigured(
          "options have a #{misplaced}, which would not count there: say c.#{misplaced} = …"
        )
      end
      return given_store if @store

      source = url.nil? ? Configuration.from_environment(URL_VARIABLE) : url
      Store.open(source || on_this_host, **options, **profile_options.compact)
    end

    # @api private
    # Opens a store at another place, whose keys are named alike.
    #
    # @param url [String]
    # @return [Locking]
    # @raise [ConfigurationError]
    def open_at(url)
      Store.open(url, **profile_options)
    end

    # @api private
    # @return [String, nil] nil: it is not set
    # @raise [ConfigurationError] it is empty, which may mean anything
    def self.from_environment(variable)
      value = ENV[variable]
      return value unless value == ""

      raise ConfigurationError.new(
        "#{variable} is empty: set it to a value, or unset it",
        code: :bad_config
      )
    end

    # @api private
    # Forgets that the warning was given, for the end of a test.
    #
    # @return [void]
    def self.reset
      @warned = nil
    end

    # @api private
    # @return [Boolean] true the first time in this process
    def self.warns?
      return false if @warned == Process.pid

      @warned = Process.pid
      true
    end

    # @return [String] shows neither the URL, which may have a password in it, nor the secret
    def inspect
      "#<#{self.class}#{" in use" if frozen?}>"
    end

    private

    def profile_options
      { namespace: namespace_meant, secret: @secret, ttl: ttl, wait: wait, logger: logger }
    end

    def namespace_meant
      namespace.nil? ? Configuration.from_environment(NAMESPACE_VARIABLE) : namespace
    end

    def given_store
      return in_database if @store.is_a?(String)

      store = @store.respond_to?(:call) ? @store.call : @store
      unless Locking === store
        misconfigured("the callable store must return an opened store (got #{store.class})")
      end
      refuse_contradictions(store.profile)
      store
    end

    # Opens the store in the application's database, with the options that its class takes.
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
        model.is_a?(String) ? Object.const_get(model) : model, **rest, **profile_options.compact
      )
    end

    # The given store was opened with settings of its own. If the configured ones differ from
    # those, either choice could lock other keys than was meant.
    def refuse_contradictions(profile)
      of_no_use = { url: url, options: (options unless options.empty?) }.compact.keys.first
      if of_no_use
        misconfigured("#{of_no_use} is of no use with store: name it where that is opened")
      end
      told = { namespace: namespace_meant, ttl: ttl, wait: wait }.compact
      other =
        told.find do |name, value|
          name == :namespace ? value.to_s != profile.namespace : value != profile.public_send(name)
        end
      misconfigured("#{other.first} is #{other.last.inspect}, and of the store " \
                    "#{profile.public_send(other.first).inspect}: name it where the store is " \
                    "opened") if other
      if @secret.nil? || Locking::Fingerprint.of(@secret, profile.namespace) == profile.fingerprint
        return
      end

      misconfigured(
        "the secret is another one than that of the store: name it where the store is opened"
      )
    end

    def misconfigured(message)
      raise ConfigurationError.new("Plock.configure: #{message}", code: :bad_config)
    end

    # A local store is right on a developer's machine. But on several machines, it would exclude
    # nothing among them, and no error would say so.
    def on_this_host
      name = ENVIRONMENT_VARIABLES.find { |variable| ENV[variable] == "production" }
      if name
        raise ConfigurationError.new(
          "Plock has no store, and #{name} says production: set #{URL_VARIABLE} or " \
            "Plock.configure { |c| c.url = … }, to redis://…, or to local: if all processes " \
            "run on this one host",
          code: :bad_config
        )
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
