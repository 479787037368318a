# frozen_string_literal: true

require "plock/store/support/acquire_request"
require "plock/store/support/aside"
require "plock/store/support/lease_state"

class Locker
  # Raised in the holder's block when another process has taken the row, or when the row expired
  # because no renewal was answered. After this loss, another process may have done the same work as
  # the block.
  class LockStolen < StandardError; end

  # The lock of one block, from the first attempt to the release. If a renewal finds another
  # owner, or is not answered before the row expires, it raises {LockStolen} in the block.
  #
  # @api private
  class Holding < Plock::Store::LeaseState
    # Seconds that a renewal or a release on another thread may take. The end of a block waits for
    # that thread, so it may be delayed by as much.
    LAST_S = 2.0

    # LockStolen does not interrupt a release. Other exceptions interrupt it only while it blocks.
    LEAVING = { LockStolen => :never, Object => :on_blocking }.freeze

    private_constant :LAST_S, :LEAVING

    # @param locker [Locker] the owner
    def initialize(locker, rows)
      # A row that is taken in the caller's transaction stays locked until that transaction ends.
      # It needs no renewal, and another connection could not renew it.
      super(Bell.of(locker.model), Rows.call(locker.key), nil, renew: !rows.in_transaction?)
      @locker = locker
      @rows = rows
      @alarm = Plock::LossAlarm.new(LockStolen) { |error| raise error }
    end

    # @param patience [Float] seconds to wait
    # @return [Boolean] whether the block has run
    def around(patience, &block)
      request = Plock::Store::AcquireRequest.new(@store, self, @locker.lock_for)
      @alarm.around do
        next false unless request.run(patience)

        @alarm.hearing(&block)
        @done = true
      ensure
        Plock::Interrupts.complete { request.leave }
      end
    end

    # @return [Integer, nil] the sequence; nil if another caller holds the row
    def get = (@locker.sequence if @locker.get)

    # Renews on another thread, so that this thread notices the expiry even if the database is
    # silent.
    #
    # @return [Boolean, nil] whether the row was still ours; nil if this is unknown
    def renew(span)
      ours, =
        Plock::Store::Aside.run((valid_until - Plock::Clock.now).clamp(0.0, LAST_S)) do
          @rows.renew(@locker.key, @locker.identifier, span)
        end
      ours
    rescue ActiveRecord::ActiveRecordError
      nil
    end

    # Does not count a loss as the end of the lease, because the end of the block must still release
    # a lost row.
    def ended = (super unless @ended == :lost)

    def lose
      @alarm.raise_inside(Plock::Clock.now >= valid_until ? expired : stolen)
      super
    end

    # Releases the row. Before that, waits for a renewal that is running, because its statement must
    # not run after the release. A forked child does nothing, because the row is its parent's.
    def release(*)
      return if inherited?

      ending { finish(:released) }
      give_back
    end

    # Releases a row after its acquire failed. The database may still carry out the failed request,
    # so the next attempt uses a new owner name.
    def give_up
      return if @locker.locked == false || inherited?

      release_until(Plock::Clock.now + @locker.lock_for) || release_aside
    end

    private

    def renewed_after(_left) = @locker.renew_every

    def stolen = LockStolen.new("another caller has taken the lock on #{@locker.key.inspect}")

    def expired
      LockStolen.new(
        "the lock on #{@locker.key.inspect} could not be renewed before it expired: " \
        "the database did not answer"
      )
    end

    # Releases the row at the end of the block. If the block raised an exception, the caller
    # receives that exception, even if the lock was lost. A caller that is interrupted does not wait
    # for the answer to the release.
    def give_back
      ours = Thread.handle_interrupt(LEAVING) { @locker.release }
      answered = true
      raise @alarm.error || stolen unless ours || !@done
    rescue ActiveRecord::ActiveRecordError => e
      answered = true
      release_later(e.class)
    ensure
      release_later("interrupted") unless answered || release_aside
    end

    # Logs that a release failed, and repeats it in the background. A row that was taken in the
    # caller's transaction needs no second release, because the lock ends with the transaction.
    def release_later(reason)
      warn_of(reason)
      release_until(valid_until) if @renew && !inherited?
    end

    # Repeats the release in the background, until it succeeds or the row expires.
    #
    # @return [Boolean] false if nothing is repeated: the caller has chosen the owner's name, and a
    #   late release would end the caller's next lock under that name
    def release_until(over_at)
      key, owner = @locker.key, @locker.identifier
      return false unless @locker.rename

      @store.scheduler.call_later do
        again_at = Plock::Clock.now + LAST_S / 2
        again_at unless @rows.release(key, owner) || again_at > over_at
      rescue ActiveRecord::ActiveRecordError
        again_at unless again_at > over_at
      end
      true
    end

    # Releases the row over another connection, because the caller's connection has not answered or
    # is in the middle of a statement. Does nothing in the caller's transaction, which locks the
    # row for other connections.
    #
    # @return [Boolean, nil] true if the database answered; nil if the result is unknown
    def release_aside
      return if inherited? || @rows.in_transaction?

      Plock::Store::Aside.run(LAST_S) { @locker.release } && true
    rescue ActiveRecord::ActiveRecordError, Plock::Error
      nil
    end

    def warn_of(reason)
      Plock::Log.warn(Plock.logger, "the lock on #{@locker.key.inspect} could not be released " \
                                    "(#{reason}): it frees itself within #{@locker.lock_for} s")
    end
  end
end
