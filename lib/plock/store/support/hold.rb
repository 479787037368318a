# frozen_string_literal: true

require "forwardable"
require_relative "../../dispatcher"
require_relative "../../locking/share"

module Plock
  class Store
    # The object that a store in Ruby hands out for a lease. When this object is garbage-collected,
    # its {LeaseState} survives.
    #
    # @api private
    class StateHold
      extend Forwardable

      FORMAT = "ruby"

      # The format of a dump: the kind of the store, and the fields of the lease.
      DUMP = /\A#{FORMAT} (\S+) (\S+) (\d*) (\d+(?:\.\d+)?) (\S+) (\S*)\z/.freeze

      private_constant :DUMP

      # Releases the lease of a hold that was garbage-collected without a release, and warns. The
      # proc must not refer to the hold, because the hold would then never be collected. The proc
      # takes no mutex, because the thread that it interrupts may hold that mutex.
      def self.finalizer(state)
        proc { Dispatcher.post(-> { abandon(state) }) if state.forgotten? }
      end

      def self.abandon(state)
        return Dispatcher.tell_of(:expired, state.key, state.fence) if state.lost?

        Dispatcher.tell_of(:abandoned, state.key, state.fence) if state.release(0.0)
      rescue *Locking::Acquisition::STORE_FAILURES
        Dispatcher.tell_of(:abandoned, state.key, state.fence) # the lease expires by itself
      end
      private_class_method :abandon

      # @return [Array(String, String, Integer, Float, Share)] key, token, fence, ttl, and how the
      #   lease shares the key, or nil
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

      attr_reader :lease

      def release_trailing(_keep) = false

      # @return [Float] seconds from the request to the grant
      attr_reader :waited

      def_delegators :@lease, :id, :key, :token, :fence, :ttl, :acquired_at, :valid_until,
                     :inherited?, :valid?, :lost?, :extend, :release, :downgrade, :leave

      def initialize(lease, kind, waited, contended)
        @lease = lease
        @kind = kind
        @waited = waited
        @contended = contended
        # Ruby 3.1 crashes if several Ractors define finalizers. So only leases of the main Ractor
        # have a finalizer.
        ObjectSpace.define_finalizer(self, self.class.finalizer(lease)) if Events.here?
      end

      def mode = @lease.share&.name

      def contended? = @contended

      # @return [String] in ASCII; another process can adopt it after {#leave}
      def dump
        name, owner = [key, token].map { |text| [text].pack("m0") }
        "#{FORMAT} #{@kind} #{owner} #{fence} #{ttl} #{name} #{@lease.share&.to_str}"
      end

      # @return [String] without the token
      def inspect
        "#<#{self.class} #{key.inspect} fence=#{fence}>"
      end
    end
  end
end
