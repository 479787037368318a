# frozen_string_literal: true

module Plock
  # What is written into a store about an owner, by the engine and by stores in Ruby: "host pid thread channel label value".
  #
  # @api private
  module Record
    NONE = "-"

    # What would not do as one word of several.
    UNFIT = /[\x00-\x20\x7F%]|\A-\z/.freeze

    private_constant :NONE, :UNFIT

    class << self
      # @param record [String]
      # @return [Array(String, Integer, Integer, String), nil] host, pid, thread, label, and the value
      def parse(record)
        host, pid, thread, _channel, label, value = record.split(" ", 6)
        return unless value

        [host, Integer(pid, 10), Integer(thread[/\A\d+/], 10), decode(label), value]
      end

      # Of whoever calls.
      #
      # @param channel [String, nil] on which it can be called
      # @param label [String, nil]
      # @param value [String]
      # @return [String]
      def write(channel, label, value)
        [encode(Etc.uname[:nodename]), Process.pid, Thread.current.native_thread_id, channel || NONE, label ? encode(label) : NONE,
         value].join(" ")
      end

      # @param record [String]
      # @return [String, nil] on which the owner can be called
      def channel(record)
        channel = record.split(" ", 5)[3]
        channel unless channel == NONE
      end

      private

      def encode(text)
        text.gsub(UNFIT) { |character| format("%%%02X", character.ord) }
      end

      # Percent-encoded are blanks, control characters and the percent sign.
      def decode(label)
        label.gsub(/%(\h\h)/) { $1.hex.chr }.force_encoding(Encoding::UTF_8) unless label == NONE
      end
    end
  end
end
