# frozen_string_literal: true

require_relative "circles"
require_relative "key"
require_relative "words"

module Plock
  class Survey
    # The locks of one store as a survey found them.
    class Snapshot
      # @return [Time] when the survey ended, or the time of its last step so far
      attr_reader :at

      # @return [Array<Status>] of the keys that are held or waited for
      attr_reader :statuses

      # @return [Integer] how many of the known keys the survey has not examined yet
      attr_reader :rest

      # @return [Array<Unreadable>] keys that the store cannot read
      attr_reader :unreadable

      # @param complete [Boolean] did the survey reach its end?
      # @param cut [Boolean] were there more keys than a survey lists?
      def initialize(statuses, at:, rest: 0, unreadable: [], complete: true, cut: false)
        @statuses = statuses
        @at = at
        @rest = rest
        @unreadable = unreadable
        @complete = complete
        @cut = cut
      end

      def complete? = @complete

      def cut? = @cut

      # @return [Integer] the number of held keys
      def held = @held ||= @statuses.count(&:held?)

      # @return [Integer] the number of waiters
      def waiting = @waiting ||= @statuses.sum { |status| status.waiters.size }

      # @return [Array<Status>] the keys that are waited for, the longest wait first
      def queues
        @queues ||= @statuses.select { |status| status.waiters.any? }.sort_by do |status|
          Snapshot.first_wait(status)&.to_f || Float::INFINITY
        end
      end

      # @return [Time, nil] when the longest of all waits began
      def oldest_wait = queues.first && Snapshot.first_wait(queues.first)

      # @return [Array<Status>] semaphores that have waiters, because all their permits are taken
      def at_limit = @at_limit ||= queues.select { |status| status.kind == :semaphore }

      def by_kind
        @by_kind ||=
          @statuses.group_by(&:kind).sort_by { |kind, _| Words::KINDS.keys.index(kind) }.to_h
      end

      # @return [Hash{String, nil => Array<Status>}] nil: the namespace without a name
      def by_namespace
        @by_namespace ||=
          @statuses.group_by { |status| Key.parse(status.store_key)&.namespace }
                   .sort_by { |name, _| name.to_s }.to_h
      end

      # @yieldreturn [Array<Status>] the statuses in this order, which the snapshot keeps
      def in_order(order) = (@orders ||= {})[order] ||= yield

      def circles = @circles ||= Circles.in(queues)

      # @return [Array<Array<Wait>>] the circles that contain the key
      def circles_around(status)
        circles.select do |waits|
          waits.any? { |wait| wait.status.store_key == status.store_key }
        end
      end

      # @return [Array<Status>] the other keys held by the processes that hold this key
      def held_beside(status)
        processes = status.holders.map { |holder| Snapshot.process(holder) }.compact
        (processes.flat_map { |process| by_process.fetch(process, []) }.uniq(&:store_key))
          .reject { |other| other.store_key == status.store_key }
      end

      class << self
        # @return [Time, nil] when the longest wait for the key began
        def first_wait(status) = status.waiters.filter_map(&:since).min

        # @param known [Status::Holder, Status::Waiter]
        # @return [Array(String, Integer), nil] nil: the process is unknown
        def process(known) = ([known.host, known.pid] if known.host && known.pid)
      end

      private

      def by_process
        @by_process ||= @statuses.each_with_object({}) do |status, found|
          status.holders.filter_map { |holder| Snapshot.process(holder) }.uniq.each do |process|
            (found[process] ||= []) << status
          end
        end
      end
    end
  end
end
