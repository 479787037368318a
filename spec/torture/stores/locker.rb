# frozen_string_literal: true

require "support/lockers"
require_relative "products"

module Torture
  module Stores
    class Lock < ActiveRecord::Base
      self.table_name = "locks"
    end

    # The front door Locker, which has no lease that tells until when it counts. Its row is good for
    # so long after it was asked for, and beyond that as long as nothing has been raised in the
    # block.
    class LockerProduct
      RENEWALS = 3
      OVERRUN = 0.9 # of its time, after which a holder renews that should not need to
      CONNECTIONS = 12

      # The caller's patience: Locker itself waits without end.
      class OutOfPatience < StandardError; end

      def self.ways = WAYS.first(1)
      def self.native? = true

      # The one that listens, and two that try whether it hears: no front door closes them.
      def self.kept_connections = 3

      # A connection of Active Record whose beginning is broken off stays in its pool, half made:
      # calls on it end in a NoMethodError then, whoever makes them.
      def self.fragile? = true
      HALF_MADE = %r{/active_record/}.freeze

      def initialize(address)
        Lock.establish_connection(address.config.merge(pool: CONNECTIONS))
        Plock.configure { |settings| settings.logger = Ear.new }
      end

      def ways = self.class.ways
      def hands_over? = false

      def enter(_way, key, ttl:, wait:, renew:, **, &block)
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

      # A row that is held, as far as can be told without looking into Locker.
      class Row
        DRIFT = 0.01
        SLACK = 2 * MILLISECOND
        GRACE = SECOND / 10 # by which an error arrives in the block, where the process runs
        STEADY = SECOND / 16 # between two looks, unless the process was kept from running
        STEADY_FOR = SECOND / 5

        attr_reader :key, :fence

        def initialize(key, fence, asked, ttl)
          @key = key
          @fence = fence
          @valid_until = asked + Torture.ns(ttl * (1 - DRIFT)) - SLACK
          @looked = @steady_since = Clock.now
        end

        # What Locker does not tell, the block shows: it goes on, so nobody else should be inside.
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

      # Yields what ends the alarm. False where patience was over before that was called.
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
      rescue ActiveRecord::StatementInvalid => e # as Active Record names what arrives in a statement
        e.cause.is_a?(OutOfPatience) ? false : raise
      ensure
        alarm&.kill
      end

      # One that has gone off already is heard here, before the block has begun.
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
