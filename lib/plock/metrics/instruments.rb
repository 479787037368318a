# frozen_string_literal: true

module Plock
  module Metrics
    # One metric. Its name follows the conventions of OpenTelemetry for `db.client.connection`.
    class Instrument
      # @return [String] as in OpenTelemetry, such as `plock.client.wait_time`
      attr_reader :name

      # @return [Symbol] `:counter`, `:gauge` or `:histogram`
      attr_reader :type

      # @return [String] a UCUM unit: `s` for seconds, or the counted thing, such as `{lease}`
      attr_reader :unit

      # @return [Array<Symbol>] the names of its labels
      attr_reader :labels

      # @return [String]
      attr_reader :description

      # @return [Array<Float>, nil] the upper bounds of a histogram's buckets, in {#unit}
      attr_reader :buckets

      # @api private
      def initialize(name, type, unit, labels, description, buckets = nil)
        @name = "plock.client.#{name}".freeze
        @type = type
        @unit = unit
        @labels = labels
        @description = description
        @buckets = buckets
        freeze
      end

      # @return [Symbol] the name in Prometheus, such as `plock_client_wait_time_seconds`
      def prometheus_name
        words = [name.tr(".", "_"), ("seconds" if unit == "s"), ("total" if type == :counter)]
        words.compact.join("_").to_sym
      end

      # @return [String]
      def inspect = "#<#{self.class} #{name}>"
    end

    # The labels of each metric of leases. Keys and their digests are never labels.
    LEASE = %i[label kind].freeze
    private_constant :LEASE

    # The buckets of the histograms. The local store answers in microseconds, and Redis in a
    # fraction of a millisecond. Waits and holds may last for minutes.
    WAITS = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0,
             2.5, 5.0, 10.0, 30.0, 60.0].freeze
    HOLDS = [0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0,
             3600.0].freeze
    private_constant :WAITS, :HOLDS

    # All metrics, by the name that adapters receive.
    #
    # @return [Hash{Symbol => Instrument}]
    INSTRUMENTS = {
      held: [:gauge, "{lease}", LEASE, "Leases that this process holds"],
      waiting: [:gauge, "{call}", LEASE, "Calls that ask or wait for a key"],
      wait_time: [:histogram, "s", LEASE, "Time from a call until it had its key", WAITS],
      hold_time: [:histogram, "s", LEASE, "Time for which a lease was held", HOLDS],
      contended: [:counter, "{call}", LEASE, "Calls whose key was held by others at first"],
      timeouts: [:counter, "{call}", LEASE, "Calls whose wait ended before they had their key"],
      failures: [:counter, "{call}", [*LEASE, :error].freeze, "Calls that an exception ended"],
      losses: [:counter, "{lease}", LEASE, "Leases that were lost"],
      late_renewals: [:counter, "{renewal}", LEASE,
                      "Renewals after which less than a third of the TTL had been left"],
      failed_releases: [:counter, "{release}", LEASE, "Releases that failed"],
      abandoned: [:counter, "{lease}", LEASE, "Leases that were collected without a release"],
      "connection.count": [:gauge, "{connection}", %i[store state].freeze,
                           "Connections to the store, used or idle"],
      "connection.max": [:gauge, "{connection}", %i[store].freeze,
                         "Connections to the store at most"],
      "connection.pending_requests": [:gauge, "{call}", %i[store].freeze,
                                      "Calls that wait for a connection"],
      "connection.waits": [:counter, "{call}", %i[store].freeze,
                           "Calls that have waited for a connection"]
    }.to_h { |name, description| [name, Instrument.new(name, *description)] }.freeze
  end
end
