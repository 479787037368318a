# frozen_string_literal: true

require "support/lockers"
require_relative "broken_connects"
require_relative "products"

module Torture
  module Stores
    class Lock < ActiveRecord::Base
      self.table_name = "locks"
    end

    # The drop-in replacement for Locker. It has no lease that tells when it ends. A call's row
    # counts as held for its ttl from the beginning of the call. After that, it counts for as long
    # as the block runs without an error.
    class LockerProduct
      RENEWALS = 3
      OVERRUN = 0.9 # the part of a ttl after which a row is renewed in a call without `renew`
      CONNECTIONS = 12

      # Ends a wait when the caller's patience is over, because Locker itself waits forever.
      class OutOfPatience < StandardError; end

      def self.ways = WAYS.first(1)
      def self.native? = true

      # On PostgreSQL, the listener's connection and two that test it. The drop-in replacement
      # never closes them.
      def self.kept_connections = Lock.connection_db_config.adapter == "postgresql" ? 3 : 0

      # If an interrupt hits Active Record while it connects, the half-made connection stays in
      # the connection pool. Any later call on that connection raises a NoMethodError.
      def self.fragile? = true
      HALF_MADE = %r{/active_record/}.freeze

      # If an interrupt ends a connect, mysql2 leaks the socket.
      def self.lost_sockets = BrokenConnects.sockets

      def initialize(address)
        BrokenConnects.watch
        Lock.establish_connection(address.config.merge(pool: CONNECTIONS))
        Plock.configure { |settings| settings.logger = Ear.new }
      end

      def ways = self.class.ways
      def hands_over? = false

      def enter(_way, key, ttl:, wait:, renew: false, **, &block)
        asked = Clock.now
        ran = patiently(wait) do |in_time|
          options = { model: Lock, blocking: wait.positive?, lock_for: ttl,
                      renew_every: renew ? ttl / RENEWALS : ttl * OVERRUN }
          Locker.run("torture #{key}", options) do |sequence|
            in_time.call
            block.call([Row.new(key, sequence, asked, ttl)])
          end
        end
        raise Refused unless ran
      rescue Locker::LockStolen => e
        raise Lost, e.message
      rescue ActiveRecord::ActiveRecordError, Plock::Error => e
        Stores.failed(e)
      rescue NoMethodError => e
        raise unless e.backtrace.first.match?(HALF_MADE)

        Stores.failed(e)
      end

      def close
        Lock.connection_handler.remove_connection_pool(Lock.connection_specification_name)
      end

      # A row that is held, as far as a test can know without access to Locker's internals.
      class Row
        DRIFT = 0.01
        SLACK = 2 * MILLISECOND
        GRACE = SECOND / 10 # within this time, an error reaches a running block
        STEADY = SECOND / 16 # if two looks are further apart, the process could not run
        STEADY_FOR = SECOND / 5

        attr_reader :key, :fence

        def initialize(key, fence, asked, ttl)
          @key = key
          @fence = fence
          @valid_until = asked + Torture.ns(ttl * (1 - DRIFT)) - SLACK
          @looked = @steady_since = Clock.now
        end

        # Locker does not tell when the row's time ends. So the row counts as held for as long as
        # the block runs without an error.
        def valid_until
          now = Clock.now
          @steady_since = now if now - @looked > STEADY
          @looked = now
          @valid_until = [@valid_until, now - GRACE].max if now - @steady_since > STEADY_FOR
          @valid_until
        end

        def valid? = Clock.now < @valid_until
      end

      private

      # Sets an alarm that ends the wait. Yields a lambda that turns the alarm off. Returns false if
      # the alarm ended the wait, otherwise the block's value.
      def patiently(wait)
        return yield(-> {}) unless wait.positive?

        alarm = nil
        Thread.handle_interrupt(OutOfPatience => :never) do
          alarm = alarm_after(wait, Thread.current)
          Thread.handle_interrupt(OutOfPatience => :immediate) do
            yield -> { turn_off(alarm) }
          end
        end
      rescue OutOfPatience
        false
      rescue ActiveRecord::StatementInvalid => e # raised if the alarm interrupted a statement
        e.cause.is_a?(OutOfPatience) ? false : raise
      ensure
        alarm&.kill
      end

      # Stops the alarm. If it has already raised, the exception takes effect here, before the
      # block begins.
      def turn_off(alarm)
        Thread.handle_interrupt(OutOfPatience => :never) { alarm.kill.join }
      end

      def alarm_after(wait, thread)
        Thread.new do
          sleep wait
          thread.raise(OutOfPatience)
        end
      end
    end
  end
end
