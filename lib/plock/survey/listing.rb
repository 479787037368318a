# frozen_string_literal: true

require_relative "key"
require_relative "snapshot"

module Plock
  class Survey
    # The part of a snapshot that a page of the list shows.
    class Listing
      PAGE = 50
      LAST = Float::INFINITY
      private_constant :LAST

      # For each order, the value by which statuses are sorted. The first order is the default.
      ORDERS = {
        "waiting" => ->(status) { [-status.waiters.size, status.since&.to_f || LAST] },
        "since" => ->(status) { status.since&.to_f || LAST },
        "left" => ->(status) { status.remaining || LAST },
        "label" => ->(status) { status.label.to_s.downcase },
        "host" => ->(status) { [status.host.to_s, status.pid.to_i] },
        "kind" => ->(status) { status.kind.to_s },
        "node" => ->(status) { status.node.to_s },
        "key" => ->(status) { status.store_key }
      }.freeze

      # The orders whose first row has the greatest value. The column of "since" shows for how
      # long a key has been held, so its greatest value belongs to the earliest moment.
      GREATEST_FIRST = %w[waiting since].freeze
      private_constant :GREATEST_FIRST

      attr_reader :query, :order

      # @return [Symbol, nil]
      attr_reader :kind

      # @return [Integer] from 1
      attr_reader :page

      # @param named [Array<Status>] the statuses of the key whose name is the query
      # @param query [String] part of a label, host or store key; empty: all
      # @param kind [String, nil] the name of a kind
      # @param namespace [String, nil] empty: the namespace without a name; nil: all
      # @param order [String] one of ORDERS; any other text means the default
      def initialize(
        snapshot, named: [], query: "", kind: nil, namespace: nil, order: nil, reverse: false,
        page: 1
      )
        @query = query
        @kind = Locking::Kind::ALL.map(&:name).find { |name| name.to_s == kind }
        @namespace = namespace
        @order = ORDERS.key?(order) ? order : ORDERS.keys.first
        @reverse = reverse
        @found = select(sorted(snapshot, named))
        @found = @found.reverse if @reverse
        @page = page.clamp(1, pages)
      end

      def reverse? = @reverse

      # @return [Boolean] does the sorted value decrease from row to row?
      def descending? = @reverse ^ GREATEST_FIRST.include?(@order)

      # @return [Array<Status>] the statuses on all pages
      attr_reader :found

      # @return [Integer] the number of locks
      def size = @found.size

      def pages = [(size / PAGE.to_f).ceil, 1].max

      # @return [Array<Status>] the statuses on this page, as the snapshot has them
      def statuses = @found[(page - 1) * PAGE, PAGE] || []

      # @return [Range] the numbers of this page's rows, counted from 1 over all pages
      def places = (((page - 1) * PAGE) + 1)..[page * PAGE, size].min

      private

      def select(statuses)
        statuses = statuses.select { |status| status.kind == @kind } if @kind
        statuses = statuses.select { |status| in_namespace?(status) } if @namespace
        return statuses if @query.empty?

        words = @query.downcase
        statuses.select { |status| @named&.include?(status.store_key) || match?(status, words) }
      end

      def in_namespace?(status) = Key.parse(status.store_key)&.namespace.to_s == @namespace

      def match?(status, words)
        return true if Key.forms(status.store_key).any? { |form| form.downcase.include?(words) }

        (status.holders + status.waiters).any? do |known|
          known.label&.scrub&.downcase&.include?(words) || known.host&.downcase&.include?(words)
        end
      end

      # Keeps the sorted list with the snapshot, because sorting thousands of locks takes longer
      # than everything else.
      def sorted(snapshot, named)
        return snapshot.in_order(@order) { sort(snapshot.statuses) } if named.empty?

        # a status with a name replaces the status of the same key without a name
        @named = named.map(&:store_key)
        sort(named + snapshot.statuses.reject { |status| @named.include?(status.store_key) })
      end

      def sort(statuses)
        value = ORDERS.fetch(@order)
        statuses.sort_by { |status| [*value.call(status), status.store_key] }
      end
    end
  end
end
