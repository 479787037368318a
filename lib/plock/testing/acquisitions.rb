# frozen_string_literal: true

require_relative "../../plock"

module Plock
  module Testing
    # The keys that are acquired while a block runs, on any thread and in any store.
    #
    # @api private
    class Acquisitions
      def self.during
        seen = Thread::Queue.new
        subscription = Plock.subscribe(:acquire) { |event| seen << event.key }
        yield
        new(Array.new(seen.size) { seen.pop })
      ensure
        Plock.unsubscribe(subscription)
      end

      # @param keys [Array<String, Symbol>] as the callers named them
      def initialize(keys)
        @keys = keys.map(&:to_s).uniq
      end

      # @param keys [Array<String, Symbol>] empty: any key
      # @return [Boolean] were all of them acquired?
      def all?(keys) = keys.empty? ? @keys.any? : (keys.map(&:to_s) - @keys).empty?

      # @param keys [Array<String, Symbol>] empty: any key
      # @return [Boolean] was none of them acquired?
      def none?(keys) = keys.empty? ? @keys.empty? : !keys.map(&:to_s).intersect?(@keys)

      # @return [String] for messages
      def to_s = @keys.empty? ? "it acquired no key" : "it acquired #{named(@keys)}"

      # @return [String] for messages
      def named(keys) = keys.empty? ? "a key" : keys.map(&:inspect).join(", ")
    end
  end
end
