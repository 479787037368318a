# frozen_string_literal: true

require "active_record"
require "plock"
require "plock/store/advisory"
require "plock/store/database"
require "plock/store/memcached"
require_relative "../adapters"
require_relative "places"

module Torture
  module Stores
    # The timeouts of the stores in seconds, which limit how long their calls may take.
    ATTEMPT_S = 0.5
    RELEASE_S = 1.0
    CONNECT_S = 0.5

    # Ends a call with a failure that breaks no promise.
    def self.failed(error)
      text = "#{error.class}: #{error.message}"
      Thread.current[:torture_lane]&.failed(text)
      raise Failed, text
    end

    # Is this a worker whose calls are never interrupted? Every second worker is spared.
    #
    # @param life [String] the worker's name
    def self.spared?(life) = life.to_i.even?

    # The class of models that connects to a worker's database.
    class Model < ActiveRecord::Base
      self.abstract_class = true
    end

    # A store in Ruby, with the methods that workers call.
    class Product < Torture::Product
      # The errors that a call may end with. Any other error is a finding.
      FAILURES = [Plock::UnavailableError, Plock::AuthenticationError, Plock::PermissionError,
                  Plock::ProtocolError].freeze

      NEEDS = { semaphore: :semaphores, wide: :semaphores, read: :read_write_locks,
                write: :read_write_locks, adopt: :hand_over, once: :list }.freeze

      # The number of connections that remain open after the store is closed.
      def self.kept_connections = 0

      # @return [Array<String>] sockets that the store's client library has leaked
      def self.lost_sockets = []

      # Can an interrupt break the store's client library?
      def self.fragile? = false

      def initialize(address)
        @store = open_store(address)
      end

      def ways
        @ways ||= WAYS.select { |way| NEEDS[way.name].nil? || @store.can?(NEEDS[way.name]) }
      end

      # Can leases be dumped?
      def hands_over? = @store.can?(:hand_over)

      def enter(way, key, **terms, &block)
        __send__(way.name, key, terms, &block)
      rescue Plock::TimeoutError
        raise Refused
      rescue Plock::LeaseLost => e
        raise Lost, e.message
      rescue *FAILURES => e
        Stores.failed(e)
      end

      private

      def budgets = { attempt_timeout: ATTEMPT_S, logger: Ear.new }

      def database_budgets
        { release_timeout: RELEASE_S, connect_timeout: CONNECT_S, **budgets }
      end

      def model(config)
        Model.establish_connection(config)
        Model
      end
    end

    class DatabaseProduct < Product
      private

      def open_store(address)
        Plock::Store::Database.new(model(address.config), **database_budgets, **address.options)
      end
    end

    class AdvisoryProduct < Product
      private

      def open_store(address)
        Plock::Store::Advisory.new(model(address.config), **database_budgets, **address.options)
      end
    end

    class MemcachedProduct < Product
      private

      def open_store(address)
        Dalli.logger.level = Logger::ERROR # otherwise, Dalli logs each cut connection
        Plock::Store::Memcached.new(address.config, **budgets, **address.options)
      end
    end
  end
end
