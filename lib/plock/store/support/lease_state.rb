# frozen_string_literal: true

require_relative "../../background"
require_relative "../../clock"
require_relative "../../dispatcher"
require_relative "polled_mutex"

module Plock
  class Store
    # One lease of a store in Ruby, and the bookkeeping of its renewal. A LeaseState outlives the
    # {StateHold} that callers have, so that the {Scheduler} can renew the lease, and a finalizer
    # can report it.
    #
    # Only one thread at a time sends the store a request about the lease.
    #
    # @api private
    class LeaseState
      # A lease is renewed when a third of its ttl has passed.
      RENEWALS_PER_TTL = 3

      # At first, an automatically renewed lease is neither renewed nor watched for breaks. This
      # lasts for LATER_S, or for half of the time to the first renewal if that is shorter. Most
      # blocks end before that, so their leases cost neither renewals nor checks.
      LATER_S = 0.25

      # How many times a failed renewal is repeated within one ttl.
      RETRIES_PER_TTL = 20

      attr_reader :key, :token, :share, :label, :fence, :ttl, :acquired_at, :valid_until, :watch

      # Set before the lease is granted. Each attempt may have a different token, and an adopted
      # lease keeps the label of its former owner.
      attr_writer :ttl, :token, :label

      # @return [Object, nil] the caller's open transaction that the lease belongs to
      attr_accessor :transaction

      # @return [Symbol, nil] nil: not ended; `:released`, `:lost`, or `:given` if it was handed
      #   over
      attr_reader :ended

      # @return [Float, nil] when the scheduler must next look at the lease, on {Clock}
      attr_reader :due_at

      # A renewal may be early by this fraction of the time between two renewals, so that leases
      # that are due at about the same time are renewed in one request.
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
        @lock = PolledMutex.new
        @ended = @due_at = @fence = @doubtful = @transaction = nil
        @told = false # whether the caller knows that the lease was lost
        @renewing = false # whether the scheduler's worker is renewing the lease now
        @ending = false # whether the final request has begun or is queued
        @pid = Process.pid
      end

      # Called when the store has granted the lease. All times are in seconds.
      #
      # @param asked_at [Float] a time of {Clock}, before the request left
      # @param left [Float] for how long the lease lasts; less than `ttl` if it was granted earlier
      # @raise [UnavailableError] the lease expired before the answer came; the server may still
      #   have it
      def given(fence, asked_at, ttl, left = ttl)
        if clock.now >= end_of(asked_at, ttl, left)
          raise UnavailableError.new(
            "the store took longer to answer than the lease lasts",
            code: :timed_out
          )
        end

        grant(fence, asked_at, ttl, left)
      end

      # Like {#given}, for a store that cannot answer too late.
      def grant(fence, asked_at, ttl, left = ttl)
        @fence = fence
        @acquired_at = asked_at
        @limit = @max_hold && (asked_at + @max_hold)
        date(asked_at, ttl, left)
        self
      end

      # @return [Boolean] does this lease occupy anything on the server even before it is granted?
      def pending? = false

      # For the dispatcher; negative, unlike the ids of the extension.
      def id = -object_id

      def inherited? = @pid != Process.pid

      # As far as is known without asking the store.
      def valid? = @ended.nil? && !@ending && !inherited? && clock.now < @valid_until

      def lost? = !inherited? && (@ended == :lost || (@ended.nil? && clock.now >= @valid_until))

      # @return [Boolean] true if the lease has not ended, or if neither a caller nor `on_lost:`
      #   has learned that it was lost
      def forgotten?
        !inherited? && !@told && (@ended.nil? || (@ended == :lost && !@watch))
      end

      # @return [Boolean, nil] was the lease ours? nil: it was released or handed over before
      def extend(ttl)
        asking do
          asked_at = clock.now
          # a shorter `ttl` ends the lease earlier even if the request fails
          @valid_until = [@valid_until, end_of(asked_at, ttl, ttl)].min
          doubting(ttl) do
            ours = @store.prolong(self, ttl)
            next if @ended # a release has not waited for this answer
            next lose unless ours

            date(asked_at, ttl, ttl)
            true
          end
        end
      end

      # Called when an extension has been undone. From `moment` on, other callers can take the key.
      def end_by(moment)
        @valid_until = [@valid_until, moment].min
      end

      # @param keep [Float] for how many seconds the key stays taken afterwards
      # @param deadline [Float, nil] a time of {Clock}; nil: the store's default
      # @raise [UnavailableError] the store, or an earlier call for the lease, had no answer in time
      # @raise [ThreadError] this is a signal handler; the lease stays
      def release(keep, deadline = nil)
        Background.refuse_signal_handler
        if @ended == :lost
          @told = true
          return false # there is nothing to wait for
        end
        release_here(keep, deadline || @store.release_deadline)
      end

      def release_later(keep)
        return if @ended || inherited?

        told = false
        Interrupts.complete do
          finish(:released)
          @store.give_back_later(self, keep) unless told
          told = true
        end
      end

      def downgrade
        asking do
          share = @share
          @share = Locking::Share::READ # readers may have been admitted even if this fails
          ours = @store.downgrade(self)
          next if @ended

          ours ? true : lose
        rescue UnsupportedError
          @share = share
          raise
        end
      end

      # Gives the lease up without a release, so that another owner can adopt it before it expires.
      #
      # @raise [UnavailableError] an earlier call for the lease had no answer in time
      # @raise [ThreadError] this is a signal handler; the lease stays
      def leave
        Background.refuse_signal_handler
        ending(@store.release_deadline) do
          finish(:given)
          true
        end
      end

      def lose
        return false if @ended || inherited?

        finish(:lost)
        notice([:lost, id]) if @watch
        false
      end

      # False for an automatically renewed lease until {#attend}.
      def attended? = !@left_alone

      # Called when a notification may have been missed.
      def ask_soon
        schedule(clock.now) if @due_at && @ended.nil?
      end

      def together? = true

      # Reserves the lease for this thread until {#end_turn}.
      #
      # @return [Boolean] false: another thread is asking the store; the scheduler tries again soon
      def take_turn
        return @renewing = true if @lock.try_lock

        schedule(clock.now + Clock::SLACK_S) if @ended.nil?
        false
      end

      def end_turn
        @renewing = false
        @lock.unlock
      end

      # Ends the lease if it has expired, even if the scheduler's renewal is still unanswered. But
      # a lease does not end while another thread is asking the store about it, because the answer
      # may still prolong the lease.
      #
      # @return [Boolean] has the lease ended?
      def expire
        return true if @ended
        return false if clock.now < @valid_until || (@lock.locked? && !@renewing)

        lose
        true
      end

      # @return [Float, Symbol, nil] for how many seconds to renew the lease now; `:check`: ask
      #   whether it is still held; nil: neither
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

      # Schedules the lease again if its request was not answered.
      def look_again
        if @due_at.nil? && @ended.nil?
          schedule([clock.now + (@ttl / RETRIES_PER_TTL), @valid_until].min)
        end
      end

      # @param answer [Boolean, nil] was the lease ours? nil: the store did not answer
      def renewed(asked_at, span, answer)
        # the renewal succeeded after the lease was given up as lost, so the key must be freed
        return @store.give_back_later(self, 0.0) if answer && @ended == :lost
        return if answer.nil? || @ended
        return lose unless answer

        date(asked_at, @ttl, span)
        notice([:renewed, id, clock.now - asked_at]) if Events.renewals
      end

      # The store has answered that the lease is still held.
      def seen
        return if @ended # meanwhile

        schedule([clock.now + (@ttl / RENEWALS_PER_TTL), @valid_until].min)
      end

      # @return [String] without the token
      def inspect
        "#<#{self.class} #{@key.inspect} fence=#{@fence}>"
      end

      private

      def release_here(keep, deadline)
        ending(deadline) do
          finish(:released)
          answered = false
          ours = @store.give_back(self, keep, deadline)
          answered = true
          ours
        ensure
          Interrupts.complete do
            # repeats the release later, except for a lease of {ByOwner}, which has no
            # `valid_until`: its owner can repeat the release
            @store.give_back_later(self, keep) unless answered || @valid_until.nil?
          end
        end
      ensure
        # a call that did not get its turn has not released the lease yet
        release_later(keep) if @ended.nil? && @valid_until
      end

      # Makes the final request about the lease. Without @ending, other threads with earlier or new
      # requests could keep this thread waiting.
      def ending(deadline = nil, &block)
        @ending = true
        asking(true, deadline, &block)
      ensure
        Interrupts.complete { @ending = false if @ended.nil? }
      end

      # Has a caller begun to release the lease, or to hand it over?
      def too_late?(last) = @ending && !last && @ended != :lost

      # nil if the lease was released or handed over, or belongs to the parent process
      def asking(last = false, deadline = nil)
        answer =
          if inherited? then false if @ended == :lost
          elsif !too_late?(last)
            alone(deadline) do
              if @ended then false if @ended == :lost
              elsif !too_late?(last) then yield
              end
            end
          end
        @told = true if answer == false
        answer
      end

      # Runs the block when no other thread asks the store about this lease.
      def alone(deadline = nil, &block) = @lock.hold(deadline, &block)

      def clock = Clock

      # If the answer to an extension is lost, the server may still carry out the extension at any
      # time. An extension with a shorter TTL would then shorten the lease. So renewals ask for the
      # shorter of the old and the new TTL, until the store has answered a later extension.
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

      # The block turned out to be a long one, so the lease is renewed from now on.
      def attend
        @left_alone = false
        schedule([@renew_at, @valid_until].min)
      end

      def date(asked_at, ttl, left)
        @ttl = ttl
        @valid_until = end_of(asked_at, ttl, left)
        pause = renewed_after(left)
        at = asked_at + pause
        @renew_at = at - (at % (pause * TOGETHER))
        if @watch || @renew
          look_at = [asked_at + LATER_S, (asked_at + @renew_at) / 2].min if @left_alone
          schedule([look_at || @renew_at, @valid_until].min)
        elsif @guarded
          schedule(@valid_until)
        else
          @due_at = nil
        end
      end

      def renewed_after(left) = left / RENEWALS_PER_TTL

      def end_of(asked_at, ttl, left) = asked_at + left - Clock.margin(ttl)

      def notice(notice)
        Dispatcher.start
        Dispatcher.post(notice)
      end
    end
  end
end
