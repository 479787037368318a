# frozen_string_literal: true

require_relative "../../clock"
require_relative "../../dispatcher"

module Plock
  class Store
    # One lease of a store in Ruby, and the bookkeeping of its renewal. It outlives the {StateHold}
    # that callers have, so that the {Scheduler} can renew it, and a finalizer report it.
    #
    # Only one thread at a time asks the store about it.
    #
    # @api private
    class LeaseState
      # A lease is renewed after a third of its ttl.
      RENEWALS_PER_TTL = 3

      # Seconds for which a lease that is renewed automatically is left alone at most. Most blocks
      # are shorter, so their leases are neither renewed nor watched for breaks.
      LATER_S = 0.25

      # How often a failed renewal is repeated in the span of a ttl.
      RETRIES_PER_TTL = 20

      attr_reader :key, :token, :share, :label, :fence, :ttl, :acquired_at, :valid_until, :pid,
                  :watch

      # For the request, before the lease is granted. Each attempt may have another token.
      attr_writer :ttl, :token

      # @return [Object, nil] the caller's open transaction that the lease belongs to
      attr_accessor :transaction

      # @return [Symbol, nil] nil: not ended; `:released`, `:lost`, or `:given` if it was handed
      #   over
      attr_reader :ended

      # @return [Float, nil] when the scheduler must attend to it, on {Clock}
      attr_reader :due_at

      # A renewal can be early by this part of the time between two renewals, so that it is sent
      # together with others.
      TOGETHER = 0.1

      # @param guarded [Boolean] must the store act when the lease expires?
      def initialize(
        store, key, token, share: nil, label: nil, renew: false, max_hold: nil, watch: false,
        guarded: false
      )
        @store = store
        @key = key
        @token = token
        @share = share
        @label = label
        @renew = renew
        @left_alone = renew == :automatic
        @max_hold = max_hold
        @watch = watch
        @guarded = guarded
        @lock = Mutex.new
        @ended = @due_at = @fence = @doubtful = @transaction = nil
        @told = false # whether the caller knows that it was lost
        @renewing = false # whether the scheduler's worker is renewing it now
        @ending = false # its last request has begun, or waits for its turn: no other may begin
        @pid = Process.pid
      end

      # The store has granted it.
      #
      # @param asked_at [Float] on {Clock}, before the request left
      # @param ttl [Float] seconds
      # @param left [Float] seconds that are left, if it was granted before
      # @raise [UnavailableError] it has expired by now; the server may still have it
      def given(fence, asked_at, ttl, left = ttl)
        if clock.now >= end_of(asked_at, ttl, left)
          raise UnavailableError.new(
            "the store took longer to answer than the lease lasts",
            code: :timed_out
          )
        end

        grant(fence, asked_at, ttl, left)
      end

      # As {#given}, by a store that cannot answer too late.
      def grant(fence, asked_at, ttl, left = ttl)
        @fence = fence
        @acquired_at = asked_at
        @limit = @max_hold && (asked_at + @max_hold)
        date(asked_at, ttl, left)
        self
      end

      # @return [Boolean] does a lease that was not granted occupy something on the server?
      def pending? = false

      # For an adopted lease, which keeps the label of its former owner.
      def relabel(label)
        @label = label
      end

      # @return [Integer] the dispatcher's name for it; negative, unlike those of the extension
      def id = -object_id

      def inherited? = @pid != Process.pid

      # @return [Boolean] as far as is known without asking the store
      def valid? = @ended.nil? && !@ending && !inherited? && clock.now < @valid_until

      def lost? = !inherited? && (@ended == :lost || (@ended.nil? && clock.now >= @valid_until))

      # @return [Boolean] was its end told to no caller and no listener? It may have ended.
      def forgotten?
        !inherited? && !@told && (@ended.nil? || (@ended == :lost && !@watch))
      end

      # @param ttl [Float] seconds
      # @return [Boolean, nil] was the lease ours? nil: it was released or handed over before
      def extend(ttl)
        asking do
          asked_at = clock.now
          # the shorter end counts even if the request fails
          @valid_until = [@valid_until, end_of(asked_at, ttl, ttl)].min
          doubting(ttl) { prolong(asked_at, ttl, ttl) }
        end
      end

      # An extension was undone. Others may have the key from that moment on.
      #
      # @param moment [Float] on {Clock}
      def end_by(moment)
        @valid_until = [@valid_until, moment].min
      end

      # @param keep [Float] seconds that the key stays taken
      # @param deadline [Float, nil] on {Clock}; nil: the store's own
      # @return [Boolean, nil] as {#extend}
      def release(keep, deadline = nil)
        ending do
          finish(:released)
          answered = false
          ours = @store.give_back(self, keep, deadline)
          answered = true
          ours
        ensure
          Interrupts.complete do
            # a lease of {ByOwner} has no end: its owner may release it again
            @store.give_back_later(self, keep) unless answered || @valid_until.nil?
          end
        end
      ensure
        # the fiber was stopped while it waited for its turn
        release_later(keep) if @ended.nil? && @valid_until
      end

      def release_later(keep)
        return if @ended || inherited?

        finish(:released)
        @store.give_back_later(self, keep)
      end

      # @return [Boolean, nil] as {#extend}
      def downgrade
        asking do
          share = @share
          @share = Locking::Share::READ # others may read even if the request fails
          @store.downgrade(self) ? true : lose
        rescue UnsupportedError
          @share = share
          raise
        end
      end

      # Hands the lease over: another owner adopts it, or it expires.
      #
      # @return [Boolean, nil] as {#extend}
      def leave
        ending do
          finish(:given)
          true
        end
      end

      # The store has answered that it is not ours, or it has expired.
      def lose
        return false if @ended || inherited?

        finish(:lost)
        notice([:lost, id]) if @watch
        false
      end

      # @return [Boolean] must the store watch for a break? Not while the lease is left alone.
      def attended? = !@left_alone

      # A notification may have been missed: the scheduler checks it now.
      def ask_soon
        schedule(clock.now) if @due_at && @ended.nil?
      end

      # The scheduler passes several at once to {Renewal}.
      def together? = true

      # Until {#end_turn}, no other thread asks the store about the lease.
      #
      # @return [Boolean] false: another thread is asking; the scheduler tries again soon
      def take_turn
        return @renewing = true if @lock.try_lock

        schedule(clock.now + Clock::SLACK_S) if @ended.nil?
        false
      end

      def end_turn
        @renewing = false
        @lock.unlock
      end

      # Ends the lease if it has expired, even if the store has not answered a renewal yet. If
      # another thread is asking about the lease, that may still prolong it.
      #
      # @return [Boolean] has it ended?
      def expire
        return true if @ended
        return false if clock.now < @valid_until || (@lock.locked? && !@renewing)

        lose
        true
      end

      # The request that the scheduler must make for the lease now.
      #
      # @return [Float, Symbol, nil] for how many seconds to renew it; `:check`: whether it is still
      #   there; nil: no request
      def plan(now)
        @due_at = nil
        return if @ended
        return lose && nil if now >= @valid_until
        return schedule(@valid_until) if @limit && now >= @limit
        return attend if @left_alone

        return [@ttl, @doubtful, @limit && (@limit - now)].compact.min if @renew
        return :check if @watch

        schedule(@valid_until)
      end

      # Schedules the lease again, unless it is scheduled or has ended.
      def look_again
        if @due_at.nil? && @ended.nil?
          schedule([clock.now + (@ttl / RETRIES_PER_TTL), @valid_until].min)
        end
      end

      # @param answer [Boolean, nil] was the lease ours? nil: the store did not answer
      def renewed(asked_at, span, answer)
        # the answer came too late
        return @store.give_back_later(self, 0.0) if answer && @ended == :lost
        return if answer.nil? || @ended
        return lose unless answer

        date(asked_at, @ttl, span)
        notice([:renewed, id, clock.now - asked_at]) if Events.renewals
      end

      def seen = schedule([clock.now + (@ttl / RENEWALS_PER_TTL), @valid_until].min)

      # @return [String] without the token
      def inspect
        "#<#{self.class} #{@key.inspect} fence=#{@fence}>"
      end

      private

      # For its last request. A mutex is not fair: without @ending, threads with further requests
      # could keep this one from its turn.
      def ending(&block)
        @ending = true
        asking(true, &block)
      ensure
        Interrupts.complete { @ending = false if @ended.nil? }
      end

      def asking(last = false)
        return if @ending && !last && @ended != :lost

        alone do
          answer = @ended || inherited? ? lost_before : yield
          @told = true if answer == false
          answer
        end
      end

      # @return [false, nil] nil: it was released or handed over, or is the parent's
      def lost_before = (false if @ended == :lost)

      def alone(&block) = @lock.synchronize(&block)

      # The clock of all times here.
      def clock = Clock

      # If the answer to an extension is lost, the server may carry it out at any time. Until a
      # later extension is answered, the lease is assumed to last no longer than the shorter span.
      def doubting(ttl)
        answered = false
        ours = yield
        answered = true
        @doubtful = nil
        ours
      ensure
        Interrupts.complete { doubt(ttl) unless answered }
      end

      def doubt(ttl)
        @doubtful = [@doubtful || @ttl, ttl].min
        return unless @due_at

        now = clock.now
        schedule(
          [@due_at, @watch ? now + ((@valid_until - now) / RENEWALS_PER_TTL) : @valid_until].min
        )
      end

      def schedule(at)
        @due_at = at
        @store.tend(self)
        nil
      end

      def finish(how)
        @ended = how
        @store.forget(self)
        @due_at = nil
      end

      # The block is a long one: from now on the lease is renewed.
      def attend
        @left_alone = false
        schedule([@renew_at, @valid_until].min)
      end

      def prolong(asked_at, ttl, span)
        return lose unless @store.prolong(self, span)

        date(asked_at, ttl, span)
        true
      end

      def date(asked_at, ttl, left)
        @ttl = ttl
        @valid_until = end_of(asked_at, ttl, left)
        @renew_at = with_others(asked_at + renewed_after(left), renewed_after(left))
        if @watch || @renew
          schedule([@left_alone ? look_at(asked_at) : @renew_at, @valid_until].min)
        elsif @guarded
          schedule(@valid_until)
        else
          @due_at = nil
        end
      end

      def renewed_after(left) = left / RENEWALS_PER_TTL

      # Rounds the moment down, so that leases with similar moments are renewed in one request.
      def with_others(at, pause) = at - (at % (pause * TOGETHER))

      # Halfway to its renewal at the latest.
      def look_at(asked_at) = [asked_at + LATER_S, (asked_at + @renew_at) / 2].min

      def end_of(asked_at, ttl, left) = asked_at + left - Clock.margin(ttl)

      def notice(notice)
        Dispatcher.start
        Dispatcher.post(notice)
      end
    end
  end
end
