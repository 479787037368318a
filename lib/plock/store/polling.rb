# frozen_string_literal: true

require "etc"
require_relative "../clock"

module Plock
  class Store
    # One request for a key of a store that calls nobody, from the first attempt to the lease, or to the end of patience: it is looked at
    # at growing intervals, for the first of each line only.
    #
    # @api private
    class Polling
      # How often one looks: first, by which factor longer each time, and at most. Seconds.
      FIRST_S = 0.004
      FACTOR = 1.5
      MOST_S = 0.25

      # @param store [#add, #settle, #settle_later] a store that is written in Ruby
      # @param lines [Lines] of that store
      # @param grant [Grant] that is to be given
      # @param ttl [Float] seconds
      # @param reach [Reach, nil] nil: it tries until patience ends, whatever fails
      def initialize(store, lines, grant, ttl, reach = nil)
        @reach = reach
        @store = store
        @lines = lines
        @grant = grant
        @key = grant.key
        @ttl = ttl
        @contended = @doubt = false
      end

      # @return [Boolean] was somebody else there before?
      def contended? = @contended

      # @param wait [Float] seconds
      # @return [Boolean] has the grant been given?
      def run(wait)
        @called_at = Clock.now
        @patience = @called_at + wait
        return true if !@lines.anybody?(@key) && asked?

        @contended = true
        return false unless wait.positive?

        @waiter = @lines.join(@key, facts)
        wait_for_turn
      end

      # It came to nothing, or its lease to nobody: all of it is given back.
      #
      # @return [void]
      def leave
        @lines.leave(@key, @waiter) if @waiter
        @grant.fence && @grant.ended.nil? ? @grant.release(0.0) : (@store.settle(@grant) if @doubt)
      rescue *Locking::Taking::STORE_FAILURES
        @store.settle_later(@grant)
      end

      private

      def wait_for_turn
        pause = FIRST_S
        while left.positive?
          if @lines.first?(@key, @waiter)
            return true if asked?

            called = @waiter.turn.await([pause * rand(0.5..1.0), left].min)
            pause = called ? FIRST_S : [pause * FACTOR, MOST_S].min
          else
            @waiter.turn.await(left)
          end
        end
        raise @failure if @failure

        false
      ensure
        @lines.leave(@key, @waiter)
      end

      # A failure counts as a refusal as long as there is patience.
      def asked?
        asked_at = Clock.now
        @doubt = true
        fence = @store.add(@grant, @ttl)
        @reach&.answered
        @grant.given(fence, asked_at, @ttl) if fence
        @doubt = false
        @failure = nil
        !fence.nil?
      rescue UnavailableError => e
        start_again
        raise if !left.positive? || @reach&.lost?(e, @called_at)

        @failure = e
        false
      end

      # What the attempt has come to is not known: it is taken back, and a new token has nothing to do with it.
      def start_again
        @store.settle_later(Grant.new(@store, @key, @grant.token))
        @grant.rename(Plock.token)
        @doubt = false
      end

      def left = @patience - Clock.now

      def facts
        [Etc.uname[:nodename], Process.pid, Thread.current.native_thread_id, @grant.label,
         Process.clock_gettime(Process::CLOCK_REALTIME), nil]
      end
    end
  end
end
