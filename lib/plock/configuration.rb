# frozen_string_literal: true

require_relative "errors"
require_relative "locking/profile"
require_relative "log"

module Plock
  # How the default store is opened and used: what {Plock.configure} is given. It cannot be changed once the store is in use.
  #
  # @example
  #   Plock.configure do |c|
  #     c.url = "rediss://locks.internal:6380"
  #     c.secret = ENV.fetch("LOCK_SECRET")
  #     c.namespace = "billing"
  #     c.options = { pool_size: 4, ca_file: "/etc/ssl/internal.pem" }
  #   end
  class Configuration
    URL_VARIABLE = "PLOCK_URL"

    # @api private
    # What tells where an application runs, by the habits of Rails, Rack and others.
    ENVIRONMENT_VARIABLES = %w[RAILS_ENV RACK_ENV APP_ENV].freeze

    # @return [String, Object, nil] what {Store.open} takes: a URL or a client of Redis; by default `ENV["PLOCK_URL"]`. Where there is
    #   neither, a {LocalStore} in its default place, with a warning; in production that is refused.
    attr_accessor :url

    # @return [Hash{Symbol => Object}] further options for {Store.open}
    attr_accessor :options

    # @param value [String, nil] at least 16 bytes, the same in every process; keys are hashed with it. By default
    #   `ENV["PLOCK_SECRET"]`, without which they are hashed plainly, and whoever can read the store can guess them.
    attr_writer :secret

    # @return [String, nil] 1 to 32 of A-Z a-z 0-9 _ . - that keep this application's keys apart from others' in the same store
    attr_accessor :namespace

    # @return [Numeric, nil] seconds, where a call does not say; by default 10
    attr_accessor :ttl

    # @return [Numeric, nil] seconds, where a call does not say; by default 5
    attr_accessor :wait

    # @return [#warn, nil] hears what cannot be raised; by default the standard error stream
    attr_accessor :logger

    # @api private
    def initialize
      @options = {}
    end

    # @api private
    # @return [Store] a new one
    # @raise [ConfigurationError]
    def open
      source = url || ENV[URL_VARIABLE]
      source = on_this_host if source.nil? || source == ""
      Store.open(source, **options, namespace: namespace, secret: @secret, ttl: ttl, wait: wait, logger: logger)
    end

    # @api private
    # Forgets that it was warned of, for the end of a test.
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

    # @return [String] tells neither the URL, which may have a password in it, nor the secret
    def inspect
      "#<#{self.class}#{" in use" if frozen?}>"
    end

    private

    # What is right on one's own machine would be wrong without a word where there are several.
    def on_this_host
      name = ENVIRONMENT_VARIABLES.find { |variable| ENV[variable] == "production" }
      if name
        raise ConfigurationError.new("Plock has no store, and #{name} says production: set #{URL_VARIABLE} or Plock.configure { |c| c.url = … }, " \
                                     "to redis://…, or to local: where all processes run on this one host", code: :bad_config)
      end

      if Configuration.warns?
        Log.warn(logger, "Plock has no store configured and uses local:, which excludes only processes of this host; " \
                         "set #{URL_VARIABLE} to local: to say that this is meant, or to redis://… to share locks among machines")
      end
      "local:"
    end
  end
end
