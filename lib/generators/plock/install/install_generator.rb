# frozen_string_literal: true

require "rails/generators/base"

module Plock
  # Generators for Rails.
  module Generators
    # `bin/rails generate plock:install` writes the two configuration files.
    class InstallGenerator < ::Rails::Generators::Base
      source_root File.expand_path("templates", __dir__)
      desc "Writes config/plock.yml and config/initializers/plock.rb, the settings of plock"

      # Writes config/plock.yml.
      def write_settings
        template "plock.yml.tt", "config/plock.yml"
      end

      # Writes config/initializers/plock.rb.
      def write_initializer
        template "initializer.rb.tt", "config/initializers/plock.rb"
      end

      private

      # Separates this application's keys from those of other applications.
      def namespace
        ::Rails.application.class.module_parent_name.to_s.underscore.tr("/", "-")[0, 32]
      end
    end
  end
end
