# frozen_string_literal: true

require "rails/railtie"
require_relative "../dispatcher"

module Plock
  # Makes plock part of a Rails application. `require "plock"` loads this class if Rails is loaded.
  # It needs no set-up.
  #
  # * `config.plock` and `config/plock.yml` configure the default store. Outside of development and
  #   tests, an invalid setting aborts the boot.
  # * The events of leases appear in the application's log.
  # * `on_lost:` and subscribers that plock calls on its own thread run in the application's
  #   executor, as jobs do. So Rails does not reload code while they run, and takes back the
  #   database connections that they used.
  # * `bin/rails generate plock:install` writes the two configuration files.
  #   `bin/rails plock:doctor` checks the store, and `bin/rails plock:locks` lists what is held.
  # * The console shows a {Status} as a table. The console's method `plock` shows the locks, the
  #   waiters and the doctor's findings.
  #
  # Stores also work in a Puma worker and in an application that Spring has forked. The parent
  # process keeps its leases.
  #
  # @example config/environments/production.rb
  #   config.plock.url = "rediss://locks.internal:6380"
  #   config.plock.namespace = "billing"
  #   config.plock.options = { pool_size: 4 }
  class Railtie < ::Rails::Railtie
    OLDEST = "7.2"

    # With an older Sidekiq, no guards are loaded, so that an application without guards still
    # boots. If a class does use `guard_with`, the error says that `plock/sidekiq` is missing.
    OLDEST_SIDEKIQ = "7.3"
    private_constant :OLDEST, :OLDEST_SIDEKIQ

    config.plock = ActiveSupport::OrderedOptions.new

    initializer "plock.configure",
                after: :initialize_logger,
                before: :load_config_initializers do |app|
      if ::Rails.gem_version < Gem::Version.new(OLDEST)
        raise UnsupportedError, "plock needs Rails #{OLDEST} or later (this is #{::Rails.version})"
      end

      @settings = Settings.new(app)
      @settings.apply
    end

    # The application's initializers may also set config.plock, so this runs after them.
    initializer "plock.configure_again", after: :load_config_initializers do
      @settings.apply_changes
    end

    # In development and in tests, the application may run without a store, so its settings are not
    # verified.
    config.after_initialize do
      Railtie.instance.verify_settings unless ::Rails.env.local?
    end

    # Makes guards available without a require, whatever the order of the gems in the Gemfile. With
    # the guards loaded, jobs that Sidekiq kills or deletes release their keys. This must happen
    # before the first job is pushed or fetched, because Ruby may load the first job class only at
    # that moment.
    initializer "plock.jobs", after: :load_config_initializers do
      next if defined?(::Sidekiq::VERSION) &&
              Gem::Version.new(::Sidekiq::VERSION) < Gem::Version.new(OLDEST_SIDEKIQ)

      require_relative "../sidekiq" if defined?(::Sidekiq::Job)
      ActiveSupport.on_load(:active_job) { require_relative "../active_job" }
    end

    initializer "plock.log" do
      LogSubscriber.attach_to(:plock)
    end

    initializer "plock.executor" do |app|
      Dispatcher.surroundings = app.executor.method(:wrap)
    end

    # @api private
    def verify_settings = @settings.verify

    rake_tasks do
      load File.expand_path("tasks.rake", __dir__)
    end

    console do
      require_relative "panel"
      Panel.install
    end
  end
end

# These files reopen the class Railtie, so they are loaded after its definition.
require_relative "log_subscriber"
require_relative "settings"
