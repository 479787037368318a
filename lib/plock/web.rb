# frozen_string_literal: true

require "plock"
require_relative "plain_text"
require_relative "web/needed_gems"
require_relative "web/actions"
require_relative "web/assets"
require_relative "web/source"

module Plock
  # A Rack application with web pages that show the locks of one or several stores, and can break
  # a lock. `require "plock/web"` loads it. It needs the gems rack and erubi.
  #
  # The application decides who may see the pages. Its `authorize:` is called for each request.
  # Without it, the pages cannot be mounted in production.
  #
  # @example In config/routes.rb
  #   require "plock/web"
  #   admin = ->(request, _action) do
  #     user = request.env["warden"].user
  #     user.email if user&.admin?
  #   end
  #   mount Plock::Web.new(authorize: admin) => "/locks"
  # @example In config.ru
  #   require "plock/web"
  #   map("/locks") { run Plock::Web.new(read_only: true, authorize: ->(_, _) { true }) }
  class Web
    # Admits every request. Used in development, and behind Sidekiq::Web and `plock web`, which
    # check requests themselves.
    #
    # @api private
    ALL = ->(_request, _action) { true }

    # @param stores [Locking, Hash{String => Locking}, nil] a store, or several by name; nil: the
    #   default store
    # @param authorize [#call, nil] called with the Rack::Request and an action, `:view` or
    #   `:break`. nil or false refuses the request. Any other value admits it. A String names the
    #   user for the log. Otherwise the log names the user by `REMOTE_USER` or the IP address
    # @param read_only [Boolean] do the pages refuse to break locks?
    # @param all_namespaces [Boolean] are the keys of all namespaces shown, and not only those of
    #   each store's own namespace?
    # @param logger [#warn, nil] receives a warning for each lock that is broken; nil: the store's
    #   logger, otherwise that of {Plock}, otherwise the standard error stream
    # @param refresh [Integer] seconds between two refreshes of a page, 1 to 3600
    # @raise [ConfigurationError] there is no `authorize:` in production, or an argument is invalid
    def initialize(
      stores = nil, authorize: nil, read_only: false, all_namespaces: false, logger: nil,
      refresh: 5
    )
      @authorize = check_authorize(authorize)
      @read_only = read_only
      @logger = logger
      @refresh = check_refresh(refresh)
      named = stores.is_a?(Hash) ? stores : { "default" => stores }
      raise ConfigurationError, "Plock::Web needs a store (got none)" if named.empty?

      @sources = named.map do |name, store|
        unless store.nil? || Locking === store
          raise ConfigurationError, "Plock::Web: a store must be open (got #{store.class})"
        end

        Source.new(name.to_s, store, all_namespaces)
      end.freeze
      freeze
    end

    # @param env [Hash] the environment that Rack passes
    # @return [Array(Integer, Hash, Array<String>)]
    def call(env)
      request = ::Rack::Request.new(env)
      Assets.response(request) || Actions.new(self, request).response
    end

    # @api private
    attr_reader :sources

    # @api private
    # @return [Integer] seconds
    attr_reader :refresh

    # @api private
    def read_only? = @read_only

    # @api private
    # @return [String, nil] the user; nil: the request is refused
    def user_of(request, action)
      user = @authorize.call(request, action) or return
      unless user.is_a?(String)
        user = request.get_header("REMOTE_USER") || request.ip || "an unknown user"
      end
      PlainText.utf8(user) # servers pass headers as bytes
    end

    # @api private
    def logger_for(store) = @logger || store.config.logger || Plock.logger

    private

    def check_authorize(authorize)
      return authorize if authorize.respond_to?(:call)

      unless authorize.nil?
        raise ConfigurationError,
              "Plock::Web: authorize must be a callable (got #{authorize.class})"
      end
      variable = Configuration.production_variable
      return ALL unless variable

      raise ConfigurationError,
            "Plock::Web has no authorize:, and #{variable} says production, so all users could " \
            "see and break locks: pass authorize: ->(request, action) { … }, which returns the " \
            "name of a user who may (docs/web.md)"
    end

    def check_refresh(seconds)
      return seconds if seconds.is_a?(Integer) && seconds.between?(1, 3600)

      raise ConfigurationError,
            "Plock::Web: refresh must be from 1 to 3600 seconds (got #{seconds.inspect})"
    end
  end
end
