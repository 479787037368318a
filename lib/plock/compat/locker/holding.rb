# frozen_string_literal: true

require "plock/background"
require "plock/store/aside"
require "plock/store/per_process"
require "plock/store/scheduler"

class Locker
  # What goes on while a block has the lock: a thread renews it, and has the block hear where that finds somebody else, or nobody until
  # the time is over.
  #
  # @api private
  class Holding
    # A renewal that failed is tried again after so much of what is left.
    RETRY = 0.1
    RETRY_S = (0.02..1.0).freeze

    # How long the end of a block may wait for the end of a renewal, and a release that nobody waits for may take.
    LAST_S = 2.0

    # The clocks of two machines may run so differently.
    DRIFT = 0.01

    # A release is not given up before it has been sent.
    LEAVING = { LockStolen => :never, Object => :on_blocking }.freeze

    private_constant :RETRY, :RETRY_S, :LAST_S, :DRIFT, :LEAVING

    @schedulers = Plock::Store::PerProcess.new { Plock::Store::Scheduler.new }

    # @return [Plock::Store::Scheduler] of this process
    def self.scheduler = @schedulers.enter(&:itself)

    # @param locker [Locker] that is to have it
    # @param rows [Rows]
    def initialize(locker, rows)
      @locker = locker
      @rows = rows
      @alarm = Plock::LossAlarm.new(LockStolen) { |error| raise error }
      @lock = Mutex.new
      @moved = ConditionVariable.new
      @over = false
      @pid = Process.pid
    end

    # @param ask [Proc] for the row: when it was asked for, on {Plock::Clock}; nil: somebody has it
    # @yield with the lock
    # @return [Boolean] has the block run?
    # @raise [LockStolen]
    def around(ask, &block)
      @alarm.around do
        asked_at = ask.call or next false

        date(asked_at)
        held = true
        thread = nil
        # What a transaction of the caller's has taken, nobody can take from it; and another connection would wait for its end.
        renews = !@rows.in_transaction?
        Thread.handle_interrupt(Object => :never) { thread = Plock::Background.launch("plock locker") { renew_again_and_again } if renews }
        @alarm.hearing(&block)
        done = true
      ensure
        Thread.handle_interrupt(Object => :never) { held ? finish(thread, done) : give_up }
      end
    end

    private

    def date(asked_at)
      @valid_until = asked_at + (@locker.lock_for * (1 - DRIFT))
    end

    def renew_again_and_again
      pause = @locker.renew_every
      until over_after?(pause)
        pause = renewed? ? @locker.renew_every : [[left * RETRY, RETRY_S.begin].max, RETRY_S.end].min
        next if left.positive?

        break alarm("the lock on #{@locker.key.inspect} could not be renewed before its time was over")
      end
    end

    def left = @valid_until - Plock::Clock.now

    # Another thread asks, so that a silent database does not keep this one from telling that the time is over.
    #
    # @return [Boolean] false: not this time
    def renewed?
      asked_at = Plock::Clock.now
      ours, = Plock::Store::Aside.run([left, 0.0].max) { @rows.renew(@locker.key, @locker.identifier, @locker.lock_for) }
      return false if ours.nil?

      ours ? date(asked_at) : stolen
      true
    rescue ActiveRecord::ActiveRecordError
      false
    end

    def stolen
      @over = true
      alarm("somebody else has taken the lock on #{@locker.key.inspect}")
    end

    def alarm(message) = @alarm.raise_inside(LockStolen.new(message))

    def over_after?(seconds)
      @lock.synchronize do
        @moved.wait(@lock, seconds) unless @over
        @over
      end
    end

    # A renewal that is under way ends first, for what it does would come after the release. A forked child leaves all to its parent.
    def finish(thread, done)
      return unless @pid == Process.pid

      @lock.synchronize do
        @over = true
        @moved.signal
      end
      thread&.join(LAST_S)
      thread&.kill
      give_back(done)
    end

    # An exception that is on its way already is the one to be heard. Who has no time to wait for the answer need not.
    def give_back(done)
      ours = Thread.handle_interrupt(LEAVING) { @locker.release }
      answered = true
      raise @alarm.error || LockStolen.new("somebody else has taken the lock on #{@locker.key.inspect}") unless ours || !done
    rescue ActiveRecord::ActiveRecordError => e
      answered = true
      warn_of(e.class)
    ensure
      warn_of("interrupted") unless answered || release_aside
    end

    # Asking for it has come to nothing. The database may still carry out what was asked, so the row is given back until nothing of
    # it can be left; whoever asks again does so under another name.
    def give_up
      return if @locker.locked == false || @pid != Process.pid

      key, owner, over_at = @locker.key, @locker.identifier, Plock::Clock.now + @locker.lock_for
      return release_aside unless @locker.rename

      Holding.scheduler.call_later do
        again_at = Plock::Clock.now + LAST_S / 2
        again_at unless @rows.release(key, owner) || again_at > over_at
      rescue ActiveRecord::ActiveRecordError 
        again_at unless again_at > over_at
      end
    end

    # Where nobody knows whether the row is ours, or its connection is in the middle of something. In a transaction of the caller's,
    # no other connection could.
    #
    # @return [Boolean, nil] nil: that is still not known
    def release_aside
      return if @pid != Process.pid || @rows.in_transaction?

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
