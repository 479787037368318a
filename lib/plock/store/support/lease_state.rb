# frozen_string_literal: true

require_relative "../../clock"
require_relative "../../dispatcher"

module Plock
  class Store
    # One lease of a store that is written in Ruby: what is known of it here, and the bookkeeping of
    # its renewal. It outlives the {StateHold} that callers have, so that the {Scheduler} can look
    # after it, and a finalizer report it.
    #
    # One thread at a time asks the store about it.
    #
    # @api private
    class LeaseState
      # A lease is renewed after a third of its ttl.
      RENEWALS_PER_TTL = 3

      # Seconds for which a lease that is renewed automatically is left alone: most blocks are
      # shorter, and such a lease costs nothing.
      LATER_S = 0.25

      # How often it is tried again to renew it, until its end.
      RETRIES_PER_TTL = 20

      # The clocks of two machines may run so differently, as a part of the time, and so many
      # seconds may be lost otherwise.
      DRIFT = 0.01
      SLACK_S = 0.002

      NEVER = { Object => :never }.freeze
      private_constant :NEVER

      attr_reader :key,
                  :token,
                  :share,
                  :label,
                  :fence,
                  :ttl,
                  :acquired_at,
                  :valid_until,
                  :pid,
                  :watch

      # Before it is given: for how many seconds it is asked for, and under which name, which is
      # another one each time.
      attr_writer :ttl, :token

      # @return [Object, nil] of which transaction of the caller's it is a part; nil: none, or that
      #   has ended
      attr_accessor :transaction

      # @return [Symbol, nil] nil: held; `:released`, `:lost`, `:given`
      attr_reader :ended

      # @return [Float, nil] when the scheduler is to look after it, on {Clock}
      attr_reader :due_at

      # By which part of the time between two renewals a renewal can come early, to be sent together
      # with others.
      TOGETHER = 0.1

      # @param guarded [Boolean] must the store do something when it is over?
      def initialize(store, key, token, share: nil, label: nil, renew: false, max_hold: nil, watch: false, guarded: false)
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
        @renewing = false # by the scheduler's worker, just now
        @ending = false # what comes after its end is not to begin before it
        @pid = Process.pid
      end

      # The store has granted it. A lease that is over before its owner knows of it is no lease, and
      # the server may still have it.
      #
      # @param asked_at [Float] on {Clock}, before the request left
      # @param ttl [Float] seconds
      # @param left [Float] seconds, if it is older than that
      # @raise [UnavailableError] its time is over by now
      def given(fence, asked_at, ttl, left = ttl)
        if Clock.now >= end_of(asked_at, ttl, left)
          raise UnavailableError.new(
            "the store took longer to answer than the lease lasts",
                  code: :timed_out
          )
        end

        @fence = fence
        @acquired_at = asked_at
        @limit = @max_hold && (asked_at + @max_hold)
        date(asked_at, ttl, left)
        self
      end

      # @return [Boolean] does it have something, though it was not given?
      def pending? = false

      # It is taken over from somebody who called it so.
      def relabel(label)
        @label = label
      end

      # @return [Integer] by which the dispatcher knows it; negative, as those of the extension are
      #   not
      def id = -object_id

      def inherited? = @pid != Process.pid

      # @return [Boolean] as far as can be told without asking
      def valid?
        @ended.nil? && !@ending && !inherited? && Clock.now < @valid_until
      end

      def lost?
        !inherited? && (@ended == :lost || (@ended.nil? && Clock.now >= @valid_until))
      end

      # @param ttl [Float] seconds
      # @return [Boolean, nil] is it ours? Nil: it had been released, or left, before it was asked
      #   for
      def extend(ttl)
        asking do
          asked_at = Clock.now
          # whatever comes of the request
          @valid_until = [@valid_until, end_of(asked_at, ttl, ttl)].min
          doubting(ttl) { prolong(asked_at, ttl, ttl) }
        end
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
          Thread.handle_interrupt(NEVER) do
            # or its owner may ask again, by its own name
            @store.give_back_later(self, keep) unless answered || @valid_until.nil?
          end
        end
      end

      def release_later(keep)
        return if @ended || inherited?

        finish(:released)
        @store.give_back_later(self, keep)
      end

      # @return [Boolean, nil] as {#extend}
      def downgrade
        asking do
          next lose unless @store.downgrade(self)

          @share = Locking::Share::READ
          true
        end
      end

      # Another owner adopts it, or its time ends it.
      #
      # @return [Boolean, nil] as {#extend}
      def leave
        ending do
          finish(:given)
          true
        end
      end

      # Somebody has seen that it is not ours any more.
      def lose
        return false if @ended || inherited?

        finish(:lost)
        notice([:lost, id]) if @watch
        false
      end

      # @return [Boolean] is it to hear at once what becomes of it? Not as long as it is left alone.
      def attended? = !@left_alone

      # What it would have heard may have been missed.
      def ask_soon
        schedule(Clock.now) if @due_at && @ended.nil?
      end

      # The scheduler looks after several at once: see {Renewal}.
      def together? = true

      # Nothing else is asked about it until {#end_turn}.
      #
      # @return [Boolean] false: another thread is just asking, and the scheduler looks again later
      def take_turn
        return @renewing = true if @lock.try_lock

        schedule(Clock.now + SLACK_S) if @ended.nil?
        false
      end

      def end_turn
        @renewing = false
        @lock.unlock
      end

      # Its time may be over while the store has not answered the renewal. What another thread asks
      # just now may still prolong it.
      #
      # @return [Boolean] has it ended?
      def expire
        return true if @ended
        return false if Clock.now < @valid_until || (@lock.locked? && !@renewing)

        lose
        true
      end

      # What the scheduler is to ask about it now.
      #
      # @return [Float, Symbol, nil] for how many seconds it is to be renewed; `:check`: whether it
      #   is still there; nil: nothing
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

      # Another moment is in the schedule, or it has ended, whatever came of what was asked.
      def look_again
        if @due_at.nil? && @ended.nil?
          schedule([Clock.now + (@ttl / RETRIES_PER_TTL), @valid_until].min)
        end
      end

      # @param answer [Boolean, nil] was it ours? Nil: the store could not say
      def renewed(asked_at, span, answer)
        # the answer came too late
        return @store.give_back_later(self, 0.0) if answer && @ended == :lost
        return if answer.nil? || @ended
        return lose unless answer

        date(asked_at, @ttl, span)
        notice([:renewed, id, Clock.now - asked_at]) if Events.renewals
      end

      def seen
        schedule([Clock.now + (@ttl / RENEWALS_PER_TTL), @valid_until].min)
      end

      # @return [String] without the token
      def inspect
        "#<#{self.class} #{@key.inspect} fence=#{@fence}>"
      end

      private

      # The last thing that is asked. A mutex is not fair: threads that go on asking would keep this
      # one from its turn.
      def ending(&block)
        @ending = true
        asking(true, &block)
      ensure
        Thread.handle_interrupt(NEVER) { @ending = false if @ended.nil? }
      end

      def asking(last = false)
        return if @ending && !last && @ended != :lost

        @lock.synchronize do
          next (@ended == :lost ? false : nil) if @ended || inherited?

          yield
        end
      end

      # An extension whose answer does not come may have been carried out, or may be yet, at any
      # time. Until another one is answered, no more is relied on than its span.
      def doubting(ttl)
        answered = false
        ours = yield
        answered = true
        @doubtful = nil
        ours
      ensure
        Thread.handle_interrupt(NEVER) { doubt(ttl) unless answered }
      end

      def doubt(ttl)
        @doubtful = [@doubtful || @ttl, ttl].min
        return unless @due_at

        now = Clock.now
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
        @due_at = nil
        @store.forget(self)
      end

      # The block is a long one: from now on the lease is looked after.
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

      # Leases whose renewals fall into the same part of the time are renewed in one request.
      def with_others(at, pause) = at - (at % (pause * TOGETHER))

      # Halfway to its renewal at the latest.
      def look_at(asked_at)
        [asked_at + LATER_S, (asked_at + @renew_at) / 2].min
      end

      def end_of(asked_at, ttl, left)
        asked_at + left - (ttl * DRIFT) - SLACK_S
      end

      def notice(notice)
        Dispatcher.start
        Dispatcher.post(notice)
      end
    end
  end
end
