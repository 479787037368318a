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
    # The options of the stores, and so the promises of their calls, in seconds.
    ATTEMPT_S = 0.5
    RELEASE_S = 1.0
    CONNECT_S = 0.5

    # Ends a call with a failure that violates no promise.
    #
    # @raise [Failed]
    def self.failed(error)
      text = "#{error.class}: #{error.message}"
      Thread.current[:torture_lane]&.failed(text)
      raise Failed, text
    end

    # True if this worker is not interrupted: every other one is.
    #
    # @param life [String] its name
    def self.spared?(life) = life.to_i.even?

    # The database of a worker.
    class Model < ActiveRecord::Base
      self.abstract_class = true
    end

    # A store in Ruby, as workers know it.
    class Product < Torture::Product
      # The failures of a store; any other error of a call is a finding.
      FAILURES = [Plock::UnavailableError, Plock::AuthenticationError, Plock::PermissionError,
                  Plock::ProtocolError].freeze

      NEEDS = { semaphore: :semaphores, wide: :semaphores, read: :read_write_locks,
                write: :read_write_locks, adopt: :hand_over, once: :list }.freeze

      # The connections that remain after it is closed.
      def self.kept_connections = 0

      # @return [Array<String>] sockets that the library below it has lost
      def self.lost_sockets = []

      # Do interrupts break the library below it?
      def self.fragile? = false

      def initialize(address)
        @store = open_store(address)
      end

      def ways
        @ways ||= WAYS.select { |way| NEEDS[way.name].nil? || @store.can?(NEEDS[way.name]) }
      end

      # May leases be dumped?
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
        Dalli.logger.level = Logger::ERROR # it logs each connection that is cut
        Plock::Store::Memcached.new(address.config, **budgets, **address.options)
      end
    end
  end
end
