# frozen_string_literal: true

module Plock
  # The record of an owner in a store, as the engine and the stores in Ruby write it: "host pid
  # thread channel label value".
  #
  # @api private
  module Record
    NONE = "-"

    # The bytes that are percent-encoded: blanks, control characters and the percent sign. So are
    # all bytes outside of ASCII, because a database may use another encoding. A text that is only
    # "-" is encoded because "-" stands for a missing word.
    UNFIT = /[^!-~]|%|\A-\z/n.freeze

    # The format of a record. A caller that chooses the owner's value may acquire with the same
    # value again. For such a caller, the engine writes "thread.number" instead of the thread, so
    # that the records differ.
    FORM = /\A(\S+) (\d+) (\d+)\S* \S+ (\S+) (.+)\z/m.freeze

    private_constant :NONE, :UNFIT, :FORM

    class << self
      # @param record [String] may contain any bytes: an owner's value may be binary, and
      #   other programs may write anything into a store
      # @return [Array(String, Integer, Integer, String, String), nil] host, pid, thread, label and
      #   value; the value is binary. Returns nil if the bytes are not a record.
      def parse(record)
        host, pid, thread, label, value = FORM.match(record.b)&.captures
        [text(host), Integer(pid, 10), Integer(thread, 10), decode(label), value] if value
      end

      # The owner of a record.
      #
      # @return [Hash{Symbol => Object}] the owner as {Status} reports it; all values are nil if
      #   the bytes are not a record
      def who(record)
        host, pid, thread, label, = parse(record.to_s)
        { host: host, pid: pid, thread: thread, label: label }
      end

      # The caller, as {Status} reports it.
      def own(label)
        { host: host, pid: Process.pid, thread: Thread.current.native_thread_id,
          label: label }
      end

      # The record of the calling thread.
      #
      # @param channel [String, nil] the channel on which the thread receives messages
      def write(channel, label, value)
        [
          @encoded_host ||= encode(host), Process.pid, Thread.current.native_thread_id,
          channel || NONE, label ? encode(label) : NONE, value
        ].join(" ")
      end

      # @return [String, nil] the channel on which the owner receives messages
      def channel(record)
        channel = record.split(" ", 5)[3]
        channel unless channel == NONE
      end

      private

      # Remembers the name, because it does not change. Only the main Ractor can set this variable.
      def host
        @host || Etc.uname[:nodename].freeze.tap { |name| @host = name if Events.here? }
      end

      # @return [String] ASCII
      def encode(text)
        text.b.gsub(UNFIT) { |byte| format("%%%02X", byte.ord) }.force_encoding(Encoding::UTF_8)
      end

      # The engine encodes only blanks, control characters and the percent sign, so its labels may
      # contain bytes outside of ASCII.
      def decode(label)
        text(label.gsub(/%(\h\h)/) { $1.hex.chr }) unless label == NONE
      end

      def text(bytes) = bytes.force_encoding(Encoding::UTF_8).scrub
    end
  end
end
