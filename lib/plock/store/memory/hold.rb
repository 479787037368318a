# frozen_string_literal: true

module Plock
  module Testing
    # What a {MemoryStore} hands out for a lease.
    #
    # @api private
    class MemoryHold
      FORMAT = "memory"

      # For a hold that is collected without having been released: the key is given back, and that
      # is warned of. It must not know the hold, and takes no mutex itself: whoever it interrupts
      # may have it.
      def self.finalizer(world, key, grant)
        proc do
          if grant.ended.nil? && grant.owner.here?
            Dispatcher.post(-> { abandon(world, key, grant) })
          end
        end
      end

      def self.abandon(world, key, grant)
        world.with(key) do |lock, now|
          next unless lock.holders.include?(grant) && grant.ended.nil?

          lock.release(grant, now)
          world.notice([:abandoned, key, grant.fence])
        end
      end
      private_class_method :abandon

      # @param dump [String]
      # @return [Array(String, String)] key and token
      # @raise [ArgumentError]
      def self.read(dump)
        format, token, key = dump.split(" ", 3)
        unless format == FORMAT && key
          raise ArgumentError, "not the dump of a lease of a store in memory"
        end

        [key, token]
      end

      # @return [String] in the store
      attr_reader :key

      # @return [Float] seconds from the request to the grant
      attr_reader :waited

      def initialize(world, key, grant, waited, contended)
        @world = world
        @key = key
        @grant = grant
        @waited = waited
        @contended = contended
        ObjectSpace.define_finalizer(self, self.class.finalizer(world, key, grant))
      end

      def id = @grant.id

      def token = @grant.token

      def fence = @grant.fence

      def ttl = @grant.ttl

      def mode = @grant.share&.name

      def contended? = @contended

      def acquired_at = @world.real(@grant.acquired_at)

      def valid_until = look { @world.real(@grant.expires_at) }

      def inherited? = !@grant.owner.here?

      def valid? = look { @grant.ended.nil? && !inherited? }

      def lost? = look { @grant.ended == :lost && !inherited? }

      # @return [Boolean, nil] is it ours? Nil: it had been released, or handed over. So do the
      #   others.
      def extend(ttl)
        mine { |_lock, now| @grant.extend_to(now, ttl) }
      end

      # @param keep [Float] seconds that the key stays taken
      # @return [Boolean]
      def release(keep)
        mine do |lock, now|
          keep.positive? ? @grant.keep_until(now + keep) : lock.release(@grant, now)
        end
      end

      # @return [Boolean]
      def downgrade
        mine { |lock, now| lock.downgrade(@grant, now) }
      end

      # @return [String, false, nil] false where it was lost, nil where it is not held any more
      def dump
        mine do
          @grant.ended = :given
          @grant.forget
        end.then { |ours| ours && "#{FORMAT} #{token} #{key}" }
      end

      # @return [String] without the token
      def inspect
        "#<#{self.class} #{@key.inspect} fence=#{fence}>"
      end

      private

      # At the lease as it is now.
      def look
        @world.with(@key) { yield }
      end

      # Runs the block if the lease is ours and lives.
      #
      # @return [Boolean, nil]
      def mine
        @world.with(@key) do |lock, now|
          unless lock.holders.include?(@grant) && @grant.ended.nil? && !inherited?
            next(@grant.ended == :lost ? false : nil)
          end

          yield lock, now
          true
        end
      end
    end
  end
end
