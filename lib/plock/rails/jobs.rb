# frozen_string_literal: true

module Plock
  class Railtie
    # Makes guards work, whatever runs the jobs. That must be in place before the first job is
    # pushed or fetched: a class of jobs may be loaded only then.
    #
    # @api private
    module Jobs
      # An older Sidekiq stops no application without guards. `guard_with` says what is missing.
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
