# frozen_string_literal: true

require "plock/store/support/acquire_request"
require "plock/store/support/aside"
require "plock/store/support/lease_state"

class Locker
  # Raised in the holder's block when another process has taken the row, or when its time is over
  # and no renewal was answered. The work done since then may have been done twice.
  class LockStolen < StandardError; end

  # The lock of one block, from the first attempt to its end: it is renewed, and has the block hear
  # where that finds somebody else, or nobody until the time is over.
  #
  # @api private
  class Holding < Plock::Store::LeaseState
    # How long a renewal may take, and a release that nobody waits for. The end of a block waits for
    # either.
    LAST_S = 2.0

    # A release is not given up before it has been sent.
    LEAVING = { LockStolen => :never, Object => :on_blocking }.freeze

    private_constant :LAST_S, :LEAVING

    # @param locker [Locker] that is to have it
    def initialize(locker, rows)
      # What a transaction of the caller's has taken, nobody can take from it; and another
      # connection would wait for its end.
      super(Bell.of(locker.model), Rows.call(locker.key), nil, renew: !rows.in_transaction?)
      @locker = locker
      @rows = rows
      @alarm = Plock::LossAlarm.new(LockStolen) { |error| raise error }
    end

    # @param patience [Float] seconds
    # @return [Boolean] has the block run?
    def around(patience, &block)
      request = Plock::Store::AcquireRequest.new(@store, self, @locker.lock_for)
      @alarm.around do
        next false unless request.run(patience)

        @alarm.hearing(&block)
        @done = true
      ensure
        Thread.handle_interrupt(Object => :never) { request.leave }
      end
    end

    # @return [Integer, nil] the sequence; nil: somebody has it
    def get = (@locker.sequence if @locker.get)

    # Another thread asks, so that a silent database does not keep this one from telling that the
    # time is over.
    #
    # @return [Boolean, nil] was it still ours? Nil: nobody knows
    def renew(span)
      ours, =
        Plock::Store::Aside.run((valid_until - Plock::Clock.now).clamp(0.0, LAST_S)) do
          @rows.renew(@locker.key, @locker.identifier, span)
        end
      ours
    rescue ActiveRecord::ActiveRecordError
      nil
    end

    # Whether it is lost or not, its end is to give it back.
    def ended = (super unless @ended == :lost)

    def lose
      late = Plock::Clock.now >= valid_until
      @alarm.raise_inside(
        (
          if late
            LockStolen.new(
              "the lock on #{@locker.key.inspect} could not be renewed before its time was over"
            )
          else
            stolen
          end
        )
      )
      super
    end

    # A renewal that is under way ends first, for what it does would come after the release. A
    # forked child leaves all to its parent.
    def release(*)
      return if inherited?

      ending { finish(:released) }
      give_back
    end

    # Asking for it has come to nothing. The database may still carry out what was asked, so the row
    # is given back until nothing of it can be left; whoever asks again does so under another name.
    def give_up
      return if @locker.locked == false || inherited?

      key, owner, over_at = @locker.key, @locker.identifier, Plock::Clock.now + @locker.lock_for
      return release_aside unless @locker.rename

      @store.scheduler.call_later do
        again_at = Plock::Clock.now + LAST_S / 2
        again_at unless @rows.release(key, owner) || again_at > over_at
      rescue ActiveRecord::ActiveRecordError
        again_at unless again_at > over_at
      end
    end

    private

    def renewed_after(_left) = @locker.renew_every

    def stolen = LockStolen.new("somebody else has taken the lock on #{@locker.key.inspect}")

    # An exception that is on its way already is the one to be heard. Who has no time to wait for
    # the answer need not.
    def give_back
      ours = Thread.handle_interrupt(LEAVING) { @locker.release }
      answered = true
      raise @alarm.error || stolen unless ours || !@done
    rescue ActiveRecord::ActiveRecordError => e
      answered = true
      warn_of(e.class)
    ensure
      warn_of("interrupted") unless answered || release_aside
    end

    # Where nobody knows whether the row is ours, or its connection is in the middle of something.
    # In a transaction of the caller's, no other connection could.
    #
    # @return [Boolean, nil] nil: that is still not known
    def release_aside
      return if inherited? || @rows.in_transaction?

      Plock::Store::Aside.run(LAST_S) { @locker.release } && true
    rescue ActiveRecord::ActiveRecordError, Plock::Error
      nil
    end

    def warn_of(reason)
      Plock::Log.warn(Plock.logger, "the lock on #{@locker.key.inspect} could not be released (#{reason}): it frees itself within " \
                                    "#{@locker.lock_for} s")
    end
  end
end
