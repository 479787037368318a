# frozen_string_literal: true

module Plock
  class Railtie
    # Loads the guards for the job frameworks that the application uses. This must happen before the
    # first job is pushed or fetched, because Ruby may load the first job class only at that moment.
    #
    # @api private
    module Jobs
      # With an older Sidekiq, no guards are loaded, so that an application without guards still
      # boots. If a class does use `guard_with`, the error says that `plock/sidekiq` is missing.
      OLDEST_SIDEKIQ = "7.3"
      private_constant :OLDEST_SIDEKIQ

      class << self
        def attach
          return if old_sidekiq?

          require_relative "../sidekiq" if defined?(::Sidekiq::Job)
          ActiveSupport.on_load(:active_job) { require_relative "../active_job" }
        end

        private

        def old_sidekiq?
          defined?(::Sidekiq::VERSION) &&
            Gem::Version.new(::Sidekiq::VERSION) < Gem::Version.new(OLDEST_SIDEKIQ)
        end
      end
    end
  end
end
