# frozen_string_literal: true

module Plock
  module Locking
    # The record by which a store recognises the secret of a namespace. Its value is a digest of a
    # fixed text and the namespace, made with the secret and truncated. The value does not reveal
    # the secret. If there is no secret, the value is NONE.
    #
    # @api private
    class Fingerprint
      NONE = "none"
      DIGITS = 16
      TEXT = "plock: the fingerprint of a secret\0"
      VERSION = "1"

      # The format of a note: version, fingerprint, seconds since 1970, host and pid
      NOTE = /\A1 (\h{#{DIGITS}}|#{NONE}) (\d{1,12}) (\S{1,80}) (\d{1,20})\z/

      HOST_MAX = 80
      private_constant :DIGITS, :TEXT, :VERSION, :NOTE, :HOST_MAX

      def self.of(secret, namespace)
        secret ? Plock.digest("#{TEXT}#{namespace}", secret)[0, DIGITS] : NONE
      end

      # @param value [String] as {of} returns it
      # @return [String] the note of this process, to be kept in a store
      def self.note(value)
        host = Plock.host_name.scrub("?").gsub(/\s/, "?")[0, HOST_MAX]
        [
          VERSION, value, Process.clock_gettime(Process::CLOCK_REALTIME, :second),
          host.empty? ? "?" : host, Process.pid
        ].join(" ")
      end

      # @param note [String] as a store keeps it
      # @return [Fingerprint, nil] nil: the note is not in the format of this version of plock
      def self.read(note)
        value, since, host, pid = NOTE.match(note)&.captures
        new(value, Time.at(Integer(since, 10)), host, Integer(pid, 10)) if value
      end

      attr_reader :value
      # When, and by which process, the note was written.
      attr_reader :since, :host, :pid

      def initialize(value, since, host, pid)
        @value = value
        @since = since
        @host = host
        @pid = pid
        freeze
      end

      def none? = @value == NONE

      def to_s
        secret = none? ? "no secret" : "fingerprint #{value}"
        "#{secret}, noted #{since.utc.strftime("%F %T UTC")} by host #{host} pid #{pid}"
      end
    end
  end
end
