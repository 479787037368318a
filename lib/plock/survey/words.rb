# frozen_string_literal: true

require_relative "../plain_text"
require_relative "key"

module Plock
  class Survey
    # The words for locks on the web pages and in `plock top`.
    module Words
      # The names of the kinds of locks, the most common ones first.
      KINDS = {
        lock: "lock", once: "once", semaphore: "semaphore", read_write: "read-write lock"
      }.freeze

      UNITS = [["d", 86_400], ["h", 3600], ["min", 60], ["s", 1]].freeze
      private_constant :UNITS

      # Makes untrusted text from the store safe to show.
      def plain(value) = PlainText.of(value)

      # @return [String] the key's name. If the name is unknown, the beginning of its digest; if
      #   there is no digest, the store key
      def title_of(status)
        return plain(status.key) if status.key

        Key.parse(status.store_key)&.short || plain(status.store_key)
      end

      # @param known [Status, Status::Holder, Status::Waiter]
      def label_of(known) = known.label ? plain(known.label) : "no label"

      def kind_name(kind) = KINDS.fetch(kind)

      # @param name [String, nil]
      def namespace_name(name) = name.to_s.empty? ? "(without a name)" : name

      # @return [String] with commas as thousands separators
      def count(number) = number.to_s.gsub(/(?<=\d)(?=(\d{3})+\z)/, ",")

      def counted(number, one, many = "#{one}s") = "#{count(number)} #{number == 1 ? one : many}"

      # @param seconds [Numeric, nil]
      def span(seconds)
        return "–" unless seconds
        return "#{format("%.1f", [seconds, 0].max)} s" if seconds < 10

        left = seconds.round
        parts = UNITS.filter_map do |unit, size|
          number, left = left.divmod(size)
          "#{number} #{unit}" if number.positive?
        end
        parts.first(2).join(" ")
      end

      # @param known [Status::Holder, Status::Waiter]
      def process(known)
        return "unknown process" unless known.host || known.pid

        "#{plain(known.host || "unknown host")}#{" · pid #{known.pid}" if known.pid}"
      end
    end
  end
end
