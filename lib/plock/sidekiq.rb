# frozen_string_literal: true

require "sidekiq"
require "sidekiq/api" # so that a deleted job releases its key
require_relative "errors"
require_relative "jobs/guard"
require_relative "jobs/sidekiq/client_middleware"
require_relative "jobs/sidekiq/disposal"
require_relative "jobs/sidekiq/payload"
require_relative "jobs/sidekiq/pushes"
require_relative "jobs/sidekiq/server_middleware"

module Plock
  # Guarded Sidekiq jobs. `require "plock/sidekiq"` installs the middleware. See {Guard}.
  #
  # The server middleware comes first, so that the job holds its key while all other middleware
  # runs, for example one that opens a transaction. The client middleware comes last, so that no
  # key is acquired for a push that another middleware stops.
  module Sidekiq
    OLDEST = "7.3"
    private_constant :OLDEST

    if Gem::Version.new(::Sidekiq::VERSION) < Gem::Version.new(OLDEST)
      raise UnsupportedError,
            "plock/sidekiq needs Sidekiq #{OLDEST} or later (this is #{::Sidekiq::VERSION})"
    end

    class << self
      # @api private
      def jobs?(job_class) = job_class.include?(::Sidekiq::Job)

      # @api private
      # Does nothing, because the middleware guards the jobs.
      def guard(_job_class); end

      # @api private
      def install(config)
        [config, *begun(config)].each do |chains|
          chains.client_middleware.add(ClientMiddleware)
          chains.server_middleware.prepend(ServerMiddleware)
        end
        config.death_handlers << Disposal::DEATH
        config.error_handlers.unshift(Payload::SCRUB)
        ::Sidekiq::Client.prepend(Pushes::Client)
        Disposal.attach
      end

      private

      # The capsules that have already copied the configuration's middleware chains. These copies do
      # not follow later changes of the configuration's chains, so they are changed as well. Sidekiq
      # has no public method that tells whether a capsule has its copies.
      def begun(config)
        config.capsules.each_value.select do |capsule|
          %i[@client_chain @server_chain].any? { |chain| capsule.instance_variable_get(chain) }
        end
      end
    end

    install(::Sidekiq.default_configuration)
    Guard.fronts << self
  end
end
