# frozen_string_literal: true

module Plock
  # What the engine writes into the store about an owner: "host pid thread channel label value".
  #
  # @api private
  module Record
    NONE = "-"
    private_constant :NONE

    class << self
      # @param record [String]
      # @return [Array(String, Integer, Integer, String), nil] host, pid, thread, label, and the value
      def parse(record)
        host, pid, thread, _channel, label, value = record.split(" ", 6)
        return unless value

        [host, Integer(pid, 10), Integer(thread[/\A\d+/], 10), decode(label), value]
      end

      private

      # Percent-encoded are blanks, control characters and the percent sign.
      def decode(label)
        label.gsub(/%(\h\h)/) { $1.hex.chr }.force_encoding(Encoding::UTF_8) unless label == NONE
      end
    end
  end
end
