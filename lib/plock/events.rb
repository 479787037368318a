# frozen_string_literal: true

require_relative "log"
require_relative "events/event"

module Plock
  # The subscribers to the events of leases in this process. Without subscribers, a lease only
  # reads one variable.
  #
  # Belongs to the main Ractor; leases of other Ractors emit no events.
  module Events
    autoload :ActiveSupportBridge, File.expand_path("events/active_support", __dir__)

    # The names of all events, see {Event}.
    NAMES = %i[acquire contended timeout release lost renew
               job_rescheduled job_discarded job_refused job_handled job_unguarded].freeze

    # One subscription; {DefaultStore#unsubscribe} takes it.
    class Subscription
      # @api private
      # @param pattern [#===, nil]
      # @param listener [#call]
      def initialize(pattern, listener)
        @pattern = pattern.is_a?(String) ? pattern.to_sym : pattern
        @listener = listener
      end

      # @api private
      # @return [Boolean]
      def wants?(name)
        @pattern.nil? || @pattern === name
      end

      # @api private
      # @return [void]
      def call(event)
        @listener.call(event)
      end
    end

    @lock = Mutex.new
    @subscriptions = [].freeze
    @listening = @renewals = nil

    class << self
      # @api private
      # @return [true, nil] is there a subscriber?
      attr_reader :listening

      # @api private
      # @return [Boolean, nil] is there a subscriber to renewals?
      attr_reader :renewals

      # @api private
      # @param subscription [#wants?, #call]
      # @return [Object] the subscription
      def add(subscription)
        replace { |present| present.include?(subscription) ? present : present + [subscription] }
        subscription
      end

      # @api private
      # @return [Boolean] was the subscription there?
      def remove(subscription)
        found = @subscriptions.include?(subscription)
        replace { |present| present - [subscription] } if found
        found
      end

      # @api private
      # @return [Boolean] is this the Ractor whose leases emit events?
      def here?
        Ractor.current.equal?(MAIN)
      end

      # @api private
      # @return [void]
      def clear
        replace { [] }
      end

      # Calls the subscribers. An exception of a subscriber is logged, and does not affect the
      # lock.
      #
      # @api private
      # @param name [Symbol]
      # @param duration [Float] seconds
      # @param store_key [String]
      # @param label [String, nil]
      # @param details [Hash{Symbol => Object}]
      # @return [void]
      def tell(name, duration, store_key, label, **details)
        return unless here?

        event = nil
        @subscriptions.each do |subscription|
          next unless subscription.wants?(name)

          begin
            subscription.call(event ||= Event.new(name, duration, store_key, label, details))
          rescue StandardError, ScriptError => e # the application's code
            Log.failure(nil, "a subscriber to #{name}", e)
          end
        end
      end

      private

      def replace
        @lock.synchronize do
          @subscriptions = yield(@subscriptions).freeze
          @listening = @subscriptions.empty? ? nil : true
          @renewals = @subscriptions.any? { |subscription| subscription.wants?(:renew) }
          Plock.notice_renewals = @renewals
          Plock.notice_events = @listening
        end
      end
    end

    MAIN = Ractor.current
    private_constant :MAIN
  end
end
