# frozen_string_literal: true

require "forwardable"
require_relative "../../dispatcher"
require_relative "../../locking/share"

module Plock
  class Store
    # What stores that are written in Ruby hand out for a lease: a {LeaseState}, as long as somebody has
    # it.
    #
    # @api private
    class StateHold
      extend Forwardable

      FORMAT = "ruby"

      # What a dump says: the store, as its class is called, and what {LeaseState} has.
      DUMP = /\A#{FORMAT} (\S+) (\S+) (\d*) (\d+(?:\.\d+)?) (\S+) (\S*)\z/.freeze

      private_constant :DUMP

      # For a hold that is collected without having been released: the key is given back, and that
      # is warned of. It must not know the hold, and takes no mutex itself: whoever it interrupts
      # may have it.
      def self.finalizer(grant)
        proc { Dispatcher.post(-> { abandon(grant) }) if grant.ended.nil? && !grant.inherited? }
      end

      def self.abandon(grant)
        return if grant.lost?

        Dispatcher.tell_of_abandoned(grant.key, grant.fence) if grant.release(0.0)
      rescue *Locking::Acquisition::STORE_FAILURES
        Dispatcher.tell_of_abandoned(grant.key, grant.fence) # it ends with its time
      end
      private_class_method :abandon

      # @return [Array(String, String, Integer, Float, Share)] key, token, fence, ttl, and how it
      #   shares the key, if it does
      # @raise [ArgumentError] not what {#dump} wrote
      def self.read(dump, kind)
        name, token, fence, ttl, key, share = DUMP.match(dump)&.captures
        raise ArgumentError, "not the dump of a lease of a #{kind} store" unless name == kind

        [
          text(key), text(token), (Integer(fence, 10) unless fence.empty?), Float(ttl),
          read_share(share)
        ]
      end

      def self.text(encoded) = encoded.unpack1("m0").force_encoding(Encoding::UTF_8)

      def self.read_share(text)
        return if text.empty?
        raise ArgumentError, "not the dump of a lease" unless Locking::Share::FORMAT.match?(text)

        case text
        when "r" then Locking::Share::READ
        when "w" then Locking::Share::WRITE
        else Locking::Share.of(Integer(text[1..], 10))
        end
      end
      private_class_method :text, :read_share

      attr_reader :grant

      # @return [Float] seconds from the request to the grant
      attr_reader :waited

      def_delegators :@grant,
                     :id,
                     :key,
                     :token,
                     :fence,
                     :ttl,
                     :acquired_at,
                     :valid_until,
                     :inherited?,
                     :valid?,
                     :lost?,
                     :extend,
                     :release,
                     :downgrade

      def initialize(grant, kind, waited, contended)
        @grant = grant
        @kind = kind
        @waited = waited
        @contended = contended
        ObjectSpace.define_finalizer(self, self.class.finalizer(grant))
      end

      def mode = @grant.share&.name

      def contended? = @contended

      # @return [String, false, nil]
      def dump
        left = @grant.leave or return left

        "#{FORMAT} #{@kind} #{[token].pack("m0")} #{fence} #{ttl} #{[key].pack("m0")} #{@grant.share&.to_str}"
      end

      # @return [String] without the token
      def inspect
        "#<#{self.class} #{key.inspect} fence=#{fence}>"
      end
    end
  end
end
