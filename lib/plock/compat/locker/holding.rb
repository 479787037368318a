# frozen_string_literal: true

require "plock/store/aside"

class Locker
  # What goes on while a block has the lock: a thread renews it, and has the block hear where that finds somebody else, or nobody until
  # the time is over.
  #
  # @api private
  class Holding
    # A renewal that failed is tried again after so much of what is left.
    RETRY = 0.1
    RETRY_S = (0.02..1.0).freeze

    # How long the end of a block may wait for the end of a renewal.
    LAST_S = 2.0

    # The clocks of two machines may run so differently.
    DRIFT = 0.01

    # @param locker [Locker] that has it
    # @param rows [Rows]
    # @param asked_at [Float] when it was asked for, on {Plock::Clock}
    def initialize(locker, rows, asked_at)
      @locker = locker
      @rows = rows
      @alarm = Alarm.new(LockStolen)
      @lock = Mutex.new
      @moved = ConditionVariable.new
      @over = false
      @pid = Process.pid
      date(asked_at)
    end

    # @yield with the lock
    # @return [void]
    # @raise [LockStolen]
    def around(&block)
      @alarm.around do
        # What a transaction of the caller's has taken, nobody can take from it; and another connection would wait for its end.
        thread = launch unless @rows.in_transaction?
        @alarm.hearing(&block)
        done = true
      ensure
        Thread.handle_interrupt(Object => :never) { finish(thread, done) }
      end
    end

    private

    def date(asked_at)
      @valid_until = asked_at + (@locker.lock_for * (1 - DRIFT))
    end

    def launch
      Thread.new do
        Thread.current.name = "plock locker"
        Thread.current.report_on_exception = false
        Thread.handle_interrupt(Object => :immediate) { renew_again_and_again }
      end
    end

    def renew_again_and_again
      pause = @locker.renew_every
      until over_after?(pause)
        pause = renewed? ? @locker.renew_every : [[left * RETRY, RETRY_S.begin].max, RETRY_S.end].min
        next if left.positive?

        break @alarm.call("the lock on #{@locker.key.inspect} could not be renewed before its time was over")
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
      @alarm.call("somebody else has taken the lock on #{@locker.key.inspect}")
    end

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

    # An exception that is on its way already is the one to be heard.
    def give_back(done)
      ours = @locker.release
      raise @alarm.error || LockStolen.new("somebody else has taken the lock on #{@locker.key.inspect}") unless ours || !done
    rescue ActiveRecord::ActiveRecordError => e
      Plock::Log.warn(Plock.logger, "the lock on #{@locker.key.inspect} could not be released (#{e.class}): it frees itself within " \
                                    "#{@locker.lock_for} s")
    end
  end
end
