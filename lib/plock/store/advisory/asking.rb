# frozen_string_literal: true

require_relative "../../clock"
require_relative "../database/connection"

module Plock
  class Store
    class Advisory
      # One request for a key: a connection, an attempt that does not wait, and one that waits in the database.
      #
      # @api private
      class Asking
        # How much later than patience ends the database may say so.
        LATE_S = 0.2

        # Between two attempts of which the first one collided or failed.
        PAUSE_S = 0.02

        # @param store [Advisory]
        # @param grant [Grant] that is to be given
        # @param ttl [Float] seconds
        def initialize(store, grant, ttl)
          @store = store
          @locks = store.locks
          @grant = grant
          @ttl = ttl
          @contended = false
        end

        # @return [Boolean] was somebody else there before?
        def contended? = @contended

        # @param wait [Float] seconds
        # @return [Boolean] has the grant been given?
        def run(wait)
          started = Clock.now
          @patience = started + wait
          @until = [@patience, started + @store.attempt_timeout].max
          @grant.connect(@until)
          @grant.note(@grant.connection.server_id)
          return true if given?(0.0)

          @contended = true
          while (left = @patience - Clock.now).positive?
            return true if given?(left)

            sleep([PAUSE_S, [@patience - Clock.now, 0.0].max].min)
          end
          false
        end

        # It came to nothing, or its lease to nobody.
        #
        # @return [void]
        def leave
          return @grant.release(0.0) if @grant.fence && @grant.ended.nil?

          @grant.abandon(Clock.now + @store.release_timeout)
        end

        private

        # What collides with another's is not granted.
        def given?(seconds)
          asked_at, server_id, fence = @locks.lock(@grant.connection, @grant.key, @grant.share, seconds, @until + LATE_S)
          return false unless fence

          check(server_id)
          @grant.note(server_id)
          @grant.given(fence, seconds.zero? ? asked_at : Clock.now, @ttl)
          true
        rescue Database::Connection::Again
          false
        end

        # Another number than the connection began with: there is a pooler in between.
        def check(server_id)
          return if @grant.connection.server_id == server_id || !@locks.astray?(@grant.connection, server_id, @store.pool, @until)

          raise UnsupportedError.new(@locks.advice, code: :unsupported)
        end
      end
    end
  end
end
