# frozen_string_literal: true

begin
  require "sidekiq/web"
rescue LoadError => e
  raise unless e.path == "sidekiq/web"

  raise LoadError, "plock/web/sidekiq needs the gem sidekiq, which is not installed here or not " \
                   "in the Gemfile. Add `gem \"sidekiq\", \">= 7.3\"` to the Gemfile", cause: e
end

require_relative "../web"

module Plock
  class Web
    # The pages as a tab of Sidekiq::Web, 7.3 or later. A viewer who may open Sidekiq::Web may see
    # and break locks there, unless `authorize:` says otherwise.
    #
    # @example In config/routes.rb
    #   require "plock/web/sidekiq"
    #   Plock::Web::Sidekiq.register
    #   mount Sidekiq::Web => "/sidekiq" # behind the application's own check of the user
    class Sidekiq
      # @api private
      PLACE = "plock"
      PATHS = ["", *%w[/ /locks /locks/:lock /locks/:lock/break /doctor /assets/:name]]
              .map { |path| "/#{PLACE}#{path}" }.freeze
      private_constant :PATHS

      class << self
        # Adds the tab. Call it before the first request to Sidekiq::Web.
        #
        # @param tab [String] the name of the tab
        # @param authorize [#call] as {Web#initialize} takes it
        # @param stores [Object, nil] as {Web#initialize} takes them
        # @param options [Hash] the other options of {Web#initialize}
        # @return [Web]
        # @raise [ConfigurationError] an argument is invalid
        def register(tab: "Locks", authorize: ALL, stores: nil, **options)
          web = Web.new(stores, authorize: authorize, **options)
          extension = new(web)
          place = { name: PLACE, tab: [tab], index: [PLACE] }
          if ::Sidekiq::Web.respond_to?(:configure) # Sidekiq 8 or later
            ::Sidekiq::Web.configure { |config| config.register(extension, **place) }
          else
            ::Sidekiq::Web.register(extension, **place)
          end
          web
        end
      end

      # @api private
      def initialize(web)
        @web = web
      end

      # @api private
      # Called by Sidekiq.
      def registered(application)
        answer = method(:answer)
        PATHS.each do |path|
          application.get(path) { |env| answer.call(env) }
          application.post(path) { |env| answer.call(env) }
        end
      end

      private

      # Returns the whole page, with its own security policy.
      def answer(env)
        root = env["SCRIPT_NAME"]
        @web.call(
          env.merge(
            "SCRIPT_NAME" => "#{root}/#{PLACE}",
            "PATH_INFO" => env["PATH_INFO"].delete_prefix("/#{PLACE}"),
            "plock.web.back" => ["Sidekiq", "#{root}/"]
          )
        )
      end
    end
  end
end
