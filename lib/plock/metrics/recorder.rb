# frozen_string_literal: true

require_relative "../events/recording"
require_relative "labels"
require_relative "pools"

module Plock
  module Metrics
    # Makes metrics from the events of leases, for one adapter. {Metrics.start} returns a
    # recorder.
    #
    # A forked child counts its own leases, from its first event on.
    class Recorder
      include Events::Recording

      # The method that handles each event.
      #
      # @api private
      HANDLERS = {
        wait_begin: :wait_begin, wait_end: :wait_end, acquire: :acquired, adopt: :adopted,
        contended: :contended, timeout: :timed_out, release: :released, hand_over: :handed_over,
        lost: :lost, renew: :renewed, release_failed: :release_failed, abandoned: :abandoned
      }.freeze

      # A lease that this process holds.
      Held = Struct.new(:labels, :place)

      private_constant :Held

      # @api private
      # @param stores [Hash, Array, nil] as {Metrics.start} takes it
      def initialize(adapter, stores, label, max_labels)
        @adapter = adapter
        @label = label
        @labels = Labels.new(max_labels)
        @errors = Labels.new(max_labels)
        @pools = Pools.new(adapter, stores)
        @lock = Mutex.new
        @waiting = {}
        @counts = {}
        @recording = false
      end

      # Stops recording. The gauges go to zero, and the other metrics keep their values.
      #
      # @return [Boolean] was it recording?
      def stop
        Events.remove(self)
        enter do
          start_afresh if @recording
          @recording.tap { @recording = false }
        end
      end

      # Brings the gauges up to date. If an adapter knows when its values are read, it calls this
      # first. Call it yourself before you push metrics of a process that may have been idle.
      #
      # @return [nil]
      def refresh
        enter { @pools.sample if @recording }
        nil
      end

      # @api private
      def call(event)
        labels = labels_of(event)
        record(event, labels)
      end

      # @return [String]
      def inspect = "#<#{self.class} #{@adapter.class}>"

      private

      # Sets the gauges to zero when recording stops, and in a forked child, which has none of the
      # parent's leases and waiters.
      def start_afresh
        { waiting: @waiting, held: @counts }.each do |name, counts|
          counts.each_key { |labels| @adapter.set(name, labels, counts[labels] = 0) }
        end
        @pools.zero
        @held = {}
        @places = {}
      end

      def labels_of(event)
        label = @label ? @label.call(event) : event.label
        { label: @labels.of(label), kind: event.kind.to_s }.freeze
      end

      def wait_begin(_event, labels) = move(:waiting, @waiting, labels, 1)

      def wait_end(event, labels)
        move(:waiting, @waiting, labels, -1)
        @pools.sample
        return unless event.details[:outcome] == :failed

        error = @errors.of(event.details[:error] || "interrupted")
        @adapter.count(:failures, { **labels, error: error }, 1)
      end

      def contended(_event, labels) = @adapter.count(:contended, labels, 1)

      def timed_out(_event, labels) = @adapter.count(:timeouts, labels, 1)

      def acquired(event, labels)
        @adapter.observe(:wait_time, labels, event.duration)
        adopted(event, labels)
      end

      def adopted(event, labels)
        place = place_of(event)
        @held[event.lease_id] = Held.new(labels, place)
        @places[place] = event.lease_id
        move(:held, @counts, labels, 1)
      end

      def released(event, labels)
        known = forget(event.lease_id)
        return unless known || event.details[:released]

        held_for(event, known || labels)
      end

      def handed_over(event, labels) = held_for(event, forget(event.lease_id) || labels)

      def lost(event, labels) = failed(:losses, event, labels)

      def release_failed(event, labels) = failed(:failed_releases, event, labels)

      # Counts a loss or a failed release, and records how long the lease was held. But if a loss is
      # noticed only after the release, that release has already recorded the time.
      def failed(name, event, labels)
        known = forget(event.lease_id)
        held_for(event, known) if known
        @adapter.count(name, labels, 1)
      end

      def renewed(event, labels)
        @adapter.count(:late_renewals, labels, 1) if event.details[:late]
      end

      # The lease was garbage-collected, so its labels are found by its key, kind and fence. A lease
      # that was lost before has already been counted as lost, and is not counted again.
      def abandoned(event, labels)
        known = forget(@places[place_of(event)])
        @adapter.count(:abandoned, known || labels, 1) if known || !event.details[:expired]
      end

      def place_of(event) = [event.key_digest, event.kind, event.fence]

      # @return [Hash, nil] the labels of the lease; nil: the lease is not known
      def forget(lease_id)
        held = @held.delete(lease_id) or return
        @places.delete(held.place)
        move(:held, @counts, held.labels, -1)
        held.labels
      end

      def held_for(event, labels)
        @adapter.observe(:hold_time, labels, event.duration)
        @pools.sample
      end

      def move(name, counts, labels, by)
        count = [counts.fetch(labels, 0) + by, 0].max
        @adapter.set(name, labels, counts[labels] = count)
      end
    end
  end
end
