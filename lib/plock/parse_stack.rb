# frozen_string_literal: true

require_relative "../plock"

module Plock
  # Makes the locks of Parse Stack use plock. Require `plock/parse_stack` after `parse-stack-next`.
  #
  # This file replaces {Parse::Lock} and {Parse::LockBackend} with plock's. The gem's own
  # `first_or_create!` and `create_or_update!` also use the replacements. plock uses the stores and
  # secrets that the application has configured for the gem. From a `Parse::Cache::Redis`, plock
  # takes the address, TLS settings and database. Processes with the gem's own implementation and
  # processes with plock's exclude each other.
  #
  # @example Gemfile
  #   gem "parse-stack-next"
  #   gem "plock", git: "https://git.example/plock.git", require: "plock/parse_stack"
  module ParseStack
    # The first version of the gem whose find-or-create lock uses LockBackend.
    OLDEST = "5.1"
    OURS = File.expand_path("../parse", __dir__)
    ERRORS = %i[TimeoutError UnavailableError].freeze

    private_constant :OLDEST, :OURS, :ERRORS

    class << self
      # Replaces the gem's implementation with plock's, and makes sure that the gem's is not loaded
      # later.
      #
      # @api private
      # @raise [UnsupportedError] the gem is not loaded, or is too old
      def install
        check
        # makes the gem load its LockBackend now, because a later load would overwrite plock's
        ::Parse.const_get(:CreateLock)
        replace_lock unless ours?(:Lock, :acquire)
        replace_backend unless ours?(:LockBackend, :try_acquire)
      end

      private

      def check
        unless defined?(::Parse::Stack::VERSION)
          raise UnsupportedError, "require parse-stack-next before plock/parse_stack"
        end

        version = ::Parse::Stack::VERSION
        return if Gem::Version.new(version) >= Gem::Version.new(OLDEST)

        raise UnsupportedError,
              "plock/parse_stack needs parse-stack-next #{OLDEST} or later (this is #{version})"
      end

      # A constant that is not loaded yet is not plock's.
      def ours?(name, method)
        return false if ::Parse.autoload?(name) || !::Parse.const_defined?(name, false)

        ::Parse.const_get(name, false).method(method).source_location.first.start_with?("#{OURS}/")
      end

      # Keeps the gem's error classes for plock's lock, so that code that already refers to these
      # classes also rescues the errors that plock raises.
      def replace_lock
        theirs = ::Parse.const_get(:Lock, false) unless ::Parse.autoload?(:Lock)
        ::Parse.__send__(:remove_const, :Lock)
        if theirs
          ::Parse.const_set(:Lock, Module.new)
          ERRORS.each { |name| ::Parse::Lock.const_set(name, theirs.const_get(name, false)) }
        end
        require "#{OURS}/lock"
      end

      # Loads plock's file again, because the gem has overwritten its methods.
      def replace_backend
        ::Parse.__send__(:remove_const, :LockBackend)
        load "#{OURS}/lock_backend.rb"
      end
    end

    install
  end
end
