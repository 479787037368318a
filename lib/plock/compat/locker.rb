# frozen_string_literal: true

require "plock"
require_relative "stand_in"

Plock::Compat::StandIn.claim("locker", "Locker")

require "active_record"
require "securerandom"
require "socket"
require_relative "locker/bell"
require_relative "locker/holding"
require_relative "locker/rows"
require_relative "locker/advisory"

# The API of the gem `locker`: locks that are rows of a table, through an Active Record model. It
# uses the gem's table and follows the gem's rules, so processes using plock and processes using
# the gem exclude one another. Require `plock/compat/locker` instead of that gem.
#
# All times are read from the database's clock. Any caller can take a row whose `locked_until` has
# passed. `sequence` grows by one each time a caller takes the row. A scheduler renews the rows
# that this process holds, over another connection of the model's pool.
#
# @example
#   # true if the block has run, false if another caller holds the row
#   ran = Locker.run("rollup") { |sequence| rollup(fence: sequence) }
class Locker
  LOCK_FOR_S = 30.0
  RENEW_EVERY_S = 10.0
  OPTIONS = %i[renew_every lock_for model blocking].freeze
  private_constant :LOCK_FOR_S, :RENEW_EVERY_S, :OPTIONS

  # @return [String]
  attr_accessor :key
  # @return [Float] seconds between two renewals
  attr_accessor :renew_every
  # @return [Float] seconds until a row that is not renewed expires
  attr_accessor :lock_for
  # @return [Class] an Active Record model
  attr_accessor :model
  # @return [Boolean, nil] whether the row is ours; nil if the database has not answered
  attr_accessor :locked
  # @return [Boolean] whether {#run} waits
  attr_accessor :blocking

  class << self
    # @return [Class, nil] the default model; nil means `::Lock`
    attr_accessor :model

    # Runs the block with the lock, as {#run} does.
    #
    # @param key [String]
    # @param options [Hash{Symbol => Object}] as for {#initialize}
    # @yieldparam sequence [Integer] greater than that of every earlier holder
    # @return [Boolean] whether the block has run
    # @raise (see #initialize)
    # @raise (see #run)
    def run(key, options = {}, &block) = taking(key, options).run(&block)

    # Deletes the rows that no caller has held since the given time. The sequence of a deleted key
    # starts at 1 again.
    #
    # @param before [Time, Date, String] the time; a Date, or a String in the database's format,
    #   counts as UTC
    # @param model [Class, nil] nil means the default model
    # @return [Integer] number of deleted rows
    # @raise [ActiveRecord::ActiveRecordError] the database failed
    def prune(before, model: nil) = Rows.new(model || self.model || ::Lock).prune(before)

    private

    # Skips {#initialize}, which creates the row, because the statement that takes the row also
    # creates it. A subclass's own {#initialize} is still called.
    def taking(key, options)
      return new(key, options) unless instance_method(:initialize).owner.equal?(Locker)

      allocate.tap { |locker| locker.prepare(key, options) }
    end
  end

  # Creates the key's row if it is missing, so that other processes see it before it is locked.
  #
  # @param key [String]
  # @param options [Hash{Symbol => Object}]
  # @option options [Boolean] :blocking (false) whether to wait without limit for the row
  # @option options [Numeric] :lock_for (30) seconds, more than 0, until the row expires
  # @option options [Numeric] :renew_every (10) seconds, more than 0 and less than `:lock_for`
  # @option options [Class] :model ({Locker.model}, else `::Lock`)
  # @raise [ArgumentError] an unknown option, or a number outside its range
  # @raise [ActiveRecord::ActiveRecordError] the database failed
  def initialize(key, options = {})
    prepare(key, options)
    rows.make(key)
  end

  # @return [String] the owner's name in the row. A forked child holds none of its parent's locks,
  #   so its name is different.
  def identifier
    identify unless @pid == Process.pid
    @identifier
  end

  # Sets the owner's name. From then on, all threads that use this object are the same owner, so
  # several of them can be in {#run} at once. The first block that ends releases the row.
  #
  # @param name [String]
  # @return [String]
  def identifier=(name)
    @pid = Process.pid
    @named = true
    @identifier = name
  end

  # @api private
  # Chooses a new owner name. The database may still carry out an earlier request. That request
  # writes the old name into the row, so the row then does not count as ours.
  #
  # @return [Boolean] false if the caller has set the name, which is then kept
  def rename
    identify unless @named
    !@named
  end

  # Runs the block with the lock, and then releases the lock. The lock is not re-entrant, even
  # through the same object. If a call begins while another call of this object runs, the new call
  # has its own {#identifier}, and changes neither {#locked} nor {#sequence}. If {#identifier=} has
  # been called, both calls share the identifier.
  #
  # @param blocking [Boolean] whether to wait without limit for the row
  # @yieldparam sequence [Integer] greater than that of every earlier holder
  # @return [Boolean] whether the block has run
  # @raise [LockStolen] another caller has taken the row, or the row expired while the database
  #   did not answer. The error is raised in the block, as soon as a renewal finds the loss. It is
  #   raised after the block if no renewal has found the loss, or under a Fiber scheduler.
  # @raise [ActiveRecord::ActiveRecordError] the database failed before the block
  # @raise [Plock::UnavailableError] the database took longer than {#lock_for} to answer
  # @raise [Plock::UnsupportedError] this fiber already holds the lock through this object, so the
  #   call would wait forever
  #
  # @example
  #   Locker.new("import", blocking: true, lock_for: 60).run { |sequence| import(fence: sequence) }
  def run(blocking = @blocking, &block)
    raise ArgumentError, "Locker#run needs a block" unless block

    identifier # chooses a new name after a fork
    alone = nil
    Thread.handle_interrupt(Plock::UNINTERRUPTED) { alone = @alone.try_lock }
    return hold(blocking, &block) if alone || @named

    refuse_to_wait_for_itself if blocking && @alone.owned?
    another.hold(blocking, &block)
  ensure
    Plock::Interrupts.complete { @alone.unlock if alone && @alone.owned? }
  end

  # Takes the row if it is free.
  #
  # @return [Boolean] whether the row is ours now
  # @raise [ActiveRecord::ActiveRecordError] the database failed
  def get
    @locked = nil
    sequence = rows.take(key, identifier, lock_for)
    @sequence = sequence if sequence
    @locked = !sequence.nil?
  end

  # Renews the row for {#lock_for} seconds from now.
  #
  # @param _thread [Thread, nil] ignored; the gem raises an error in this thread
  # @return [Boolean] whether the row was still ours
  # @raise [ActiveRecord::ActiveRecordError] the database failed
  def renew(_thread = nil)
    @locked = rows.renew(key, identifier, lock_for)
  end

  # Releases the row.
  #
  # @return [Boolean] whether the row was still ours
  # @raise [ActiveRecord::ActiveRecordError] the database failed
  def release
    released = rows.release(key, identifier)
    @locked = false
    Bell.of(model).call_here(key) if released
    released
  end

  # @return [Integer, nil] the sequence when the row was last taken; nil if it has not been taken
  #   yet
  attr_reader :sequence

  # @api private
  def prepare(key, options)
    unknown = options.keys - OPTIONS
    raise ArgumentError, "unknown option: #{unknown.first.inspect}" if unknown.any?

    identify
    @key = key
    @renew_every = (options[:renew_every] || RENEW_EVERY_S).to_f
    @lock_for = (options[:lock_for] || LOCK_FOR_S).to_f
    @model = options[:model] || self.class.model || ::Lock
    @blocking = !!options[:blocking]
    @locked = false
    @sequence = nil
    check_spans
  end

  protected

  def hold(blocking)
    Holding.new(self, rows).around(blocking ? Float::INFINITY : 0.0) { yield sequence }
  end

  private

  # A copy of this object with a new owner name.
  def another = dup.tap(&:rename)

  def refuse_to_wait_for_itself
    raise Plock::UnsupportedError,
          "this fiber holds #{key.inspect} already, and would wait for itself"
  end

  def identify
    # if the process forked in #run, a call of the parent has locked the old mutex, and never
    # unlocks it in this child
    @alone = Thread::Mutex.new unless @pid == Process.pid
    @pid = Process.pid
    @identifier = "host:#{Socket.gethostname} pid:#{Process.pid} guid:#{SecureRandom.hex(16)}"
    @named = @locked = false
  end

  def rows
    @rows = Rows.new(model) unless @rows&.model.equal?(model)
    @rows
  end

  def check_spans
    raise ArgumentError, "renew_every must be greater than 0" unless renew_every.positive?
    raise ArgumentError, "lock_for must be greater than 0" unless lock_for.positive?
    raise ArgumentError, "renew_every must be less than lock_for" unless renew_every < lock_for
  end
end

Plock::Compat::StandIn.open("locker")
