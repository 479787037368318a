# frozen_string_literal: true

require_relative "../../record"
require_relative "../../status"
require_relative "acquire_request"
require_relative "per_process"
require_relative "turn"

module Plock
  class Store
    # The waiters of this process, in a queue for each key. Only the first waiter of a key asks the
    # store.
    #
    # @api private
    class Lines
      # A waiting request: the turn that wakes it, and its entry for {Status}.
      Waiter = Struct.new(:turn, :told)

      # When the request becomes the first one for its key, its {Turn} is called.
      class Place < AcquireRequest::Place
        def initialize(lines, key, told = nil)
          @lines = lines
          @told = told
          join(key)
        end

        def first? = @lines.first?(@key, @waiter)

        def await(seconds) = @waiter.turn.await(seconds)

        def leave = @lines.leave(@key, @waiter)

        private

        def join(key)
          @key = key
          @waiter = @lines.join(key, @told)
        end
      end

      def line_up(request)
        told = Status.waiter(since: Time.now, **Record.own(request.lease.label))
        Place.new(self, request.key, told)
      end

      def initialize
        @lines = PerProcess.new { {} }
      end

      def join(key, told)
        waiter = Waiter.new(Turn.new, told).freeze
        @lines.enter { |lines| (lines[key] ||= []) << waiter }
        waiter
      end

      # Removes the waiter. If it was the first one, calls the next waiter.
      def leave(key, waiter)
        @lines.enter do |lines|
          line = lines[key] or next
          was_first = line.first.equal?(waiter)
          line.delete_if { |other| other.equal?(waiter) }
          lines.delete(key) if line.empty?
          line.first if was_first
        end&.turn&.call
      end

      def first?(key, waiter) = @lines.enter { |lines| lines[key]&.first.equal?(waiter) }

      def anybody?(key) = @lines.enter { |lines| lines.key?(key) }

      def any? = @lines.enter(&:any?)

      # @return [Boolean] was there a waiter?
      def call_first(key)
        first = @lines.enter { |lines| lines[key]&.first }
        first&.turn&.call
        !first.nil?
      end

      # Calls the first waiter of each key, because a notification may have been missed.
      def call_all
        @lines.enter { |lines| lines.values.map(&:first) }.each { |waiter| waiter.turn.call }
      end

      def waiters(key) = @lines.enter { |lines| (lines[key] || []).map(&:told) }
    end
  end
end
