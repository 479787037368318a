# frozen_string_literal: true

require_relative "clock"
require_relative "dispatcher"
require_relative "errors"
require_relative "events"
require_relative "lease/ending"
require_relative "lease/hand_over"
require_relative "log"
require_relative "loss_alarm"

module Plock
  # A time-bounded hold of one key, as {Locking#acquire} returns or yields it. Reading its
  # attributes sends no request to the store.
  #
  # A lease ends with {#release}, with its block, when it expires, or when it is broken. {#dump}
  # hands it over to another process. In a forked child it is not valid, and no call of the child
  # ends it.
  #
  # All methods can be called from any thread or fiber. The methods that send a request
  # ({#extend}, {#release}, {#downgrade}) and {#dump} run one at a time, in the order of the
  # calls. A release waits for a pending extension, but no longer than a release may take. If its
  # turn does not come within that time, the release continues in the background, and the call
  # raises {UnavailableError} with the code `:in_use`.
  #
  # @example
  #   Plock.acquire("report", ttl: 30) do |lease|
  #     pages.each do |page|
  #       lease.check!               # raises LeaseLost if the lease is not valid
  #       lease.extend if lease.remaining < 10
  #       page.write(fence: lease.fence)
  #     end
  #   end
  class Lease
    FORMAT = "plock1"

    # plock renews a lease when two thirds of its TTL are left. A renewal is late if less than a
    # third of the TTL was left when the store answered.
    LATE = 1 / 3.0

    private_constant :FORMAT, :LATE

    include Ending
    include HandOver

    # @return [String, Symbol] the key as the caller named it
    attr_reader :key

    # @api private
    # @param alarm [LossAlarm, nil] for `on_lost: :raise`
    def initialize(key, options, alarm = nil)
      @key = key.frozen? ? key : key.dup.freeze # binding_direct.c repeats these three lines
      @options = options
      @hold = nil
      @alarm = alarm if alarm
    end

    # @api private
    # @return [Object, nil] the store's own object for this lease
    attr_accessor :hold

    # @api private
    # @return [Lease] a new lease that takes over the hold, and continues after this lease's block
    def move
      Lease.new(@key, @options).tap { |lease| lease.hold, @hold = @hold, nil }
    end

    # @api private
    # @return [Object, nil] the entry of this lease in {Locking::OwnShares}
    attr_accessor :place

    # Notes that the caller receives the lease now. `at_least:` counts from this moment, because
    # the acquire may have taken a long time.
    #
    # @api private
    def given
      @given_after = held_for
    end

    # @api private
    # @return [String, nil] after a timeout, the token with which the caller had waited, if the
    #   store reports it
    attr_accessor :waited_with

    # @return [String, nil] as given to {Locking#acquire}
    def label = @options.label

    # @return [String] the random ID that the store has for the holder. A process that knows the
    #   token can release the lock.
    def token = @hold.token

    # @return [Integer] greater than the fence of every earlier lease of the same key
    def fence = @hold.fence

    # @return [String] the name of the key in the store
    def store_key = @hold.key

    # @return [Symbol, nil] `:read` or `:write` if the lease belongs to a {ReadWriteLock}
    def mode = @hold.mode

    # @return [Float] seconds for which the lease was granted or last extended
    def ttl = @hold.ttl

    # @return [Float] when the lease ends, in seconds on a clock that also runs while the machine
    #   is suspended (`Process::CLOCK_BOOTTIME`, if the system has it). Renewals and {#extend}
    #   move it.
    def valid_until = @hold.valid_until

    # @return [Float] seconds until the lease ends; 0.0 if the lease is not valid
    def remaining = valid? ? [@hold.valid_until - Clock.now, 0.0].max : 0.0

    # @return [Float] seconds since the lease was acquired
    def held_for = Clock.now - (@since || @hold.acquired_at)

    # @return [Boolean] does this process hold the lease, as far as it knows? False if the lease
    #   was released, lost or handed over, or belongs to a parent process.
    def valid? = !@given_away && !@lost && @hold.valid?

    # @return [Boolean] did the lease end without {#release} or {#dump}? If the lease is renewed
    #   or has `on_lost:`, plock notices a {Locking#break} at once. Otherwise plock notices it at
    #   the next call on the lease, or when the lease expires.
    def lost? = @lost || (!@given_away && !@hold.inherited? && @hold.lost?)

    # @return [self]
    # @raise [LeaseLost] the lease is not valid
    def check!
      return self if valid?

      lose if lost?
      raise LeaseLost.new(state_in_words, code: :not_owner, lease: self)
    end

    # Sets a new TTL, which counts from now. If the answer is lost or the call is interrupted,
    # {#valid_until} is the earlier of the old and the new end.
    #
    # @param ttl [Numeric] seconds, 0.005 to 31_622_400
    # @return [self]
    # @raise [LeaseLost] the lease was lost, released or handed over; the message says which
    # @raise [ArgumentError] `ttl:` is out of range
    # @raise [Error] the request to the store failed; {#valid?} is still correct
    def extend(ttl: self.ttl)
      span = Locking::Arguments.ttl(ttl)
      check!
      learn(@hold.extend(span))
      @renewed_until = @hold.valid_until if Events.listening
      self
    end

    # Turns a write lease into a read lease. No other writer gets the key in the meantime. Readers
    # that wait ahead of the next writer are admitted at once. If the answer is lost or the call is
    # interrupted, {#mode} is `:read`, and the call may be repeated.
    #
    # @return [self]
    # @raise [LeaseLost] the lease was lost, released or handed over; the message says which
    # @raise [UnsupportedError] the lease is not a write lease
    # @raise [Error] the request to the store failed
    #
    # @example
    #   Plock.read_write_lock("prices").write { |lease| import && lease.downgrade && report }
    def downgrade
      unless mode == :write || @downgrading
        raise UnsupportedError,
              "only a lease that writes can be downgraded: #{what} " \
              "#{mode == :read ? "reads" : "is not of a read-write lock"}"
      end

      check!
      @downgrading = true # until the store answers
      learn(@hold.downgrade).tap { @downgrading = false }
    end

    # Ends the lease. If `at_least:` was given, the key stays taken for the rest of that time.
    #
    # A release that could not reach the server is repeated in the background until the lease
    # expires.
    #
    # @param keep [Boolean] false frees the key at once, and ignores `at_least:`; pass it if
    #   nothing was done under the lease
    # @return [Boolean] true if the lease was still held, or if no connection of the pool was free
    #   in time and the release continues in the background; false if the lease was lost, released
    #   or handed over before, or belongs to a parent process
    # @raise [Error] the request to the store failed; the key is free when the lease expires, at
    #   the latest
    def release(keep: true)
      Interrupts.complete do
        next false if @given_away || @hold.inherited?

        let_go(keep ? left_to_keep(true) : 0.0)
      end
    end

    # Hands the lease over. From now on, this process does not renew the lease and cannot use it.
    # Another process takes the lease over with {Locking#adopt}, which is possible only once. The
    # adopted lease has a new token and a greater fence. A lease that no process adopts expires.
    # If this call is interrupted, the lease is still valid here, or plock releases it.
    #
    # @return [String] the dump, in ASCII; it contains the token, so treat it as a password
    # @raise [LeaseLost] the lease is not valid
    # @raise [UnsupportedError] the store cannot hand leases over
    # @raise [UnavailableError] another call on the lease took too long
    def dump
      check!
      left = left_to_keep(true)
      kept_until = left.zero? ? 0 : (left + Clock.wall).round(6)
      dump = nil
      begin
        learn(Interrupts.defer { hand_on })
        dump = @dumped = [FORMAT, [@key.to_s].pack("m0"), kept_until, @hold.dump].join(":")
      ensure
        # after the String is made, no call and no mask may follow: an interrupt there would keep
        # the dump from the caller
        Interrupts.complete { take_back } unless dump
      end
    end

    # @return [String] without the token
    def inspect
      return "#<#{self.class} #{@key.inspect}>" unless @hold

      "#<#{self.class} #{@key.inspect} fence=#{fence} #{state}>"
    end

    # @api private
    # Reads what {#dump} wrote.
    #
    # @return [Array(String, Float, String)] the key, the seconds for which the key must still
    #   stay taken, and the store's own part of the dump
    def self.read(dump)
      text = String.try_convert(dump)
      format, key, kept_until, rest = text.split(":", 4) if text&.ascii_only?
      raise ArgumentError, "not the dump of a lease" unless format == FORMAT && rest

      kept_until = Float(kept_until)
      keep = kept_until.zero? ? 0.0 : kept_until - Clock.wall
      [
        key.unpack1("m0").force_encoding(Encoding::UTF_8),
        keep.clamp(0.0, Locking::Arguments::SPAN_MAX), rest
      ]
    end

    # Marks the lease as part of a group of leases that is not complete yet. The caller receives
    # the leases when all are acquired. If the lease is lost before the group is complete, its key
    # is acquired again, and the loss is not reported.
    #
    # @api private
    def wait_for_others
      @early = true
      self
    end

    # Subscribes to the notices about this lease. Called when the caller receives the lease.
    #
    # @api private
    def watch
      Dispatcher.watch(@hold.id, self)
      @early = nil
      lose if @hold.lost? # lost before the subscription
    end

    # Called by the dispatcher when the store has noticed a loss.
    #
    # @api private
    def hear_lost
      lose unless @early
    end

    # Reports the loss once. An `on_lost:` callable always runs on the dispatcher's thread. It is
    # called or queued before the subscribers are called, because a subscriber may hang.
    #
    # @api private
    def lose
      return unless first_loss?

      begin
        held = held_for
        alert if @options.on_lost
      ensure # even if on_lost ends the thread
        tell(:lost, held) if held && Events.listening
      end
    end

    # @api private
    def renewed(seconds)
      return unless Events.listening

      left = left_at_renewal(seconds)
      tell(:renew, seconds, left: left, late: left < ttl * LATE)
    end

    # @api private
    # @return [Boolean] is the lease valid, and does it hold this key?
    def holds?(store_key) = !@hold.nil? && @hold.key == store_key && valid?

    # @api private
    # @yieldparam lease [Lease] this lease; {Locking::LeaseGroup#each_lease} yields several
    def each_lease
      yield self
    end

    # @api private
    def tell(event, duration, **details)
      details[:mode] = mode if mode
      Events.tell(
        event, duration, store_key, label, fence: fence, key: @key, lease_id: @hold.id, **details
      )
    end

    # Warns if the lease was lost during its block and there is no `on_lost:`.
    #
    # @api private
    def warn_if_lost
      warn_of_loss unless @options.on_lost || !lost?
    end

    # @api private
    def warn_of_loss
      Log.warn(
        @options.logger,
        "#{state_in_words} before its block ended: another holder may have run at the same time"
      )
    end

    private

    def alert
      return Dispatcher.hear { hear_of_loss } unless @alarm

      error = LeaseLost.new(state_in_words, code: :not_owner, lease: self)
      warn_of_loss unless @alarm.raise_inside(error)
    end

    # Evaluates the store's answer. `ours` is true if the lease was still held, and false if it was
    # lost. It is nil if another thread had already released the lease or handed it over.
    def learn(ours)
      return self if ours

      @lost = true if ours == false
      lose if @lost
      raise LeaseLost.new(state_in_words, code: :not_owner, lease: self)
    end

    # @param seconds [Float] how long the renewal took
    # @return [Float] seconds from the store's answer until the lease would have ended without this
    #   renewal
    def left_at_renewal(seconds)
      margin = Clock.margin(ttl)
      before = @renewed_until || (@hold.acquired_at + ttl - margin)
      @renewed_until = valid_until
      [before - (valid_until - ttl + margin + seconds), 0.0].max
    end

    def hear_of_loss
      @options.on_lost.call(self)
    rescue StandardError, ScriptError => e # the application's code
      Log.failure(@options.logger, "on_lost: for #{@key.inspect}", e)
    end

    def state
      if @given_away then "handed over"
      elsif @hold.inherited? then "the parent's"
      elsif lost? then "lost"
      elsif @hold.valid? then "valid"
      else "released"
      end
    end

    def state_in_words = "#{what} is #{state}"

    def what = "the lease on #{@key.inspect} (fence #{fence})"
  end
end
