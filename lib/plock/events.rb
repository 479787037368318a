# frozen_string_literal: true

require_relative "brief_mutex"
require_relative "log"
require_relative "loss_alarm"
require_relative "events/event"

module Plock
  # The subscribers to the events of leases in this process. Without a subscriber, an event costs
  # only one read of a variable.
  #
  # Belongs to the main Ractor; leases of other Ractors emit no events.
  module Events
    # The names of all events except those in {CALLS}. See {Event}.
    NAMES = %i[acquire contended timeout release lost renew release_failed abandoned adopt hand_over
               job_rescheduled job_discarded job_refused job_handled job_unguarded].freeze

    # The names of two more events, for the beginning and the end of a call. Only a subscriber
    # that names them receives them. See {Event}.
    CALLS = %i[wait_begin wait_end].freeze

    # One subscription, which {DefaultStore#unsubscribe} can end.
    class Subscription
      # @api private
      def initialize(pattern, listener)
        @pattern = pattern.is_a?(String) ? pattern.to_sym : pattern
        @listener = listener
      end

      # @api private
      def wants?(name) = @pattern.nil? ? !CALLS.include?(name) : @pattern === name

      # @api private
      def call(event)
        @listener.call(event)
      end
    end

    @lock = BriefMutex.new
    @subscriptions = [].freeze
    @listening = @renewals = @calls = nil

    class << self
      # @api private
      # @return [true, nil] is there a subscriber?
      attr_reader :listening

      # @api private
      # @return [Boolean, nil] is there a subscriber to renewals, or an {ActiveSupportBridge}?
      attr_reader :renewals

      # @api private
      # @return [Boolean, nil] is there a subscriber to the beginning and the end of calls?
      attr_reader :calls

      # @api private
      def add(subscription)
        replace { |present| present.include?(subscription) ? present : present + [subscription] }
        subscription
      end

      # @api private
      # @return [Boolean] was the subscription active?
      def remove(subscription)
        found = @subscriptions.include?(subscription)
        replace { |present| present - [subscription] } if found
        found
      end

      # @api private
      # @return [Boolean] is this the main Ractor? Only its leases emit events, and only it
      #   receives notices. Other Ractors cannot read the variables of this module.
      def here? = Ractor.current.equal?(MAIN)

      # @api private
      def clear
        replace { [] }
      end

      # @api private
      # @return [Boolean] does a subscriber want events of this name?
      def wanted?(name) = @subscriptions.any? { |subscription| subscription.wants?(name) }

      # Calls the subscribers. If a subscriber raises an exception, the exception is logged, and
      # does not affect the lock. A timeout around the call, or an error of a {LossAlarm}, is raised
      # after all subscribers have been called. If a subscriber ends the thread, the subscribers
      # after it are still called.
      #
      # @api private
      # @param duration [Float] seconds
      # @param details [Hash{Symbol => Object}] also `key:` and `lease_id:`, see {Event}
      # @yield before the first subscriber is called
      def tell(name, duration, store_key, label, **details, &beginning)
        return unless here?

        event = arrived = nil
        Thread.handle_interrupt(LossAlarm.mask) do
          each_of(@subscriptions, beginning) do |subscription|
            next unless subscription.wants?(name)

            begin
              subscription.call(event ||= Event.new(name, duration, store_key, label, details))
            rescue StandardError, ScriptError => e # the application's code
              if timeout_around?(e, caller(0).size) then arrived ||= e
              else Log.failure(nil, "a subscriber to #{name}", e)
              end
            end
          end
        end
        raise arrived if arrived
      end

      private

      # Calls all subscribers, even if an exception interrupts the calls. After an exception, this
      # method calls `beginning` again and continues with the next subscriber.
      #
      # @param beginning [#call, nil] called before the subscribers
      # @param called [Integer] number of subscribers that have been called
      def each_of(subscriptions, beginning, called = 0, &block)
        beginning&.call
        block.call(subscriptions[(called += 1) - 1]) while called < subscriptions.size
      ensure
        each_of(subscriptions, beginning, called, &block) if called < subscriptions.size
      end

      # Was the error raised by a timeout around this call? Timeout and the tasks of Async raise
      # their errors in whatever code is running. A timeout that the subscriber itself set does not
      # count. Such a timeout has left its own frame in the backtrace, among the frames that this
      # call has added.
      #
      # @param depth [Integer] the number of frames of this call
      def timeout_around?(error, depth)
        return false unless Log.message_of(error) == EXPIRED && (frames = error.backtrace_locations)

        frames.first([frames.size - depth, 0].max).none? do |frame|
          frame.base_label.to_s.include?("timeout")
        end
      end

      def replace
        @lock.synchronize do
          @subscriptions = yield(@subscriptions).freeze
          # ActiveSupport does not report when it gets a listener, so the bridge counts as a
          # subscriber to renewals
          bridges, own = @subscriptions.partition { |one| one.equal?(ActiveSupportBridge) }
          @listening = @subscriptions.empty? ? nil : true
          @renewals = bridges.any? || own.any? { |subscription| subscription.wants?(:renew) }
          @calls = CALLS.any? { |name| wanted?(name) }
          Plock.notice_renewals = @renewals
          Plock.notice_events = own.any?
          Plock.event_bridge = bridges.first
        end
      end
    end

    MAIN = Ractor.current

    # The message of errors that Timeout and Async raise.
    EXPIRED = "execution expired"
    private_constant :MAIN, :EXPIRED
  end
end

require_relative "events/active_support"
