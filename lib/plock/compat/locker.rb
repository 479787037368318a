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

# Locks that are rows of a table, through an Active Record model: the API, the table and the rules
# of the gem of this name, so that processes that run either exclude one another.
# `require "plock/compat/locker"`.
#
# Times are the database's. A row whose `locked_until` is over can be taken by anybody, and
# `sequence` grows by one each time that somebody takes it. Who has it renews it on a thread of its
# own, with another connection of the model's pool.
#
# @example
#   ran = Locker.run("rollup") { |sequence| rollup(fence: sequence) } # => true, or false where somebody else has it
class Locker
  LOCK_FOR_S = 30.0
  RENEW_EVERY_S = 10.0
  OPTIONS = %i[renew_every lock_for model blocking].freeze
  private_constant :LOCK_FOR_S, :RENEW_EVERY_S, :OPTIONS

  # @return [String]
  attr_accessor :key
  # @return [Float] seconds between two renewals
  attr_accessor :renew_every
  # @return [Float] seconds that a row is taken for
  attr_accessor :lock_for
  # @return [Class] an Active Record model
  attr_accessor :model
  # @return [Boolean, nil] nil: it was asked for, and nobody knows
  attr_accessor :locked
  # @return [Boolean] does {#run} wait?
  attr_accessor :blocking

  class << self
    # @return [Class, nil] the model where none is given; nil: `::Lock`
    attr_accessor :model

    # Runs the block with the lock, as {#run}.
    #
    # @param key [String]
    # @param options [Hash{Symbol => Object}] as for {#initialize}
    # @yieldparam sequence [Integer] greater than that of all who had the row before
    # @return [Boolean] has the block run?
    # @raise (see #initialize)
    # @raise (see #run)
    def run(key, options = {}, &block)
      taking(key, options).run(&block)
    end

    # Deletes the rows that nobody has had since that time. Whoever takes one of those keys then
    # begins with sequence 1 again.
    #
    # @param before [Time]
    # @param model [Class]
    # @return [Integer] how many
    def prune(before, model: nil)
      Rows.new(model || self.model || ::Lock).prune(before)
    end

    private

    # The row is made where it is taken, if need be: one statement less. A class of one's own may
    # have another {#initialize}.
    def taking(key, options)
      return new(key, options) unless instance_method(:initialize).owner.equal?(Locker)

      allocate.tap { |locker| locker.__send__(:prepare, key, options) }
    end
  end

  # Makes the key's row where there is none, so that others can see it before it is locked.
  #
  # @param key [String]
  # @param options [Hash{Symbol => Object}] `:blocking` (false): wait until it can be had;
  #   `:lock_for` (30 s); `:renew_every` (10 s); `:model` ({Locker.model}, else `::Lock`)
  # @raise [ArgumentError] a number that cannot be right, or an option of another name
  # @raise [ActiveRecord::ActiveRecordError] the database failed
  def initialize(key, options = {})
    prepare(key, options)
    rows.make(key)
  end

  # @return [String] who has the row. A forked child has nothing of its parent's, and is somebody
  #   else.
  def identifier
    identify unless @pid == Process.pid
    @identifier
  end

  # @return [String]
  def identifier=(name)
    @pid = Process.pid
    @named = true
    @identifier = name
  end

  # @api private
  # Nothing that was asked under the name so far is this one's any more.
  #
  # @return [Boolean] false: its caller has named it
  def rename
    identify unless @named
    !@named
  end

  # Runs the block with the lock, and gives it back. Another one of the same key is not let in by
  # this one: it is not re-entrant.
  #
  # @param blocking [Boolean] wait, without end, until it can be had
  # @yieldparam sequence [Integer] greater than that of all who had the row before
  # @return [Boolean] has the block run?
  # @raise [LockStolen] in the block, as soon as a renewal finds that somebody else has the row, or
  #   when the time is over and the database has not answered; after it, where that is only found
  #   then. Under a Fiber scheduler, after it only.
  # @raise [ActiveRecord::ActiveRecordError] the database failed before the block
  # @raise [Plock::UnavailableError] it took longer to answer than the row is taken for
  #
  # @example
  #   Locker.new("import", blocking: true, lock_for: 60).run { |sequence| import(fence: sequence) }
  def run(blocking = @blocking)
    raise ArgumentError, "Locker#run needs a block" unless block_given?

    Holding.new(self, rows).around(blocking ? Float::INFINITY : 0.0) { yield sequence }
  end

  # Takes the row, where nobody has it.
  #
  # @return [Boolean] has it been taken?
  # @raise [ActiveRecord::ActiveRecordError]
  def get
    @locked = nil
    sequence = rows.take(key, identifier, lock_for)
    @sequence = sequence if sequence
    @locked = !sequence.nil?
  end

  # Has it for another {#lock_for} seconds from now on.
  #
  # @return [Boolean] was it still ours?
  # @raise [ActiveRecord::ActiveRecordError]
  def renew
    @locked = rows.renew(key, identifier, lock_for)
  end

  # Gives it back.
  #
  # @return [Boolean] was it still ours?
  # @raise [ActiveRecord::ActiveRecordError]
  def release
    released = rows.release(key, identifier)
    @locked = false
    Bell.of(model).call_here(key) if released
    released
  end

  # @return [Integer, nil] of the last time that it was taken; nil: not yet
  attr_reader :sequence

  private

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

  def identify
    @pid = Process.pid
    @identifier = "host:#{Socket.gethostname} pid:#{Process.pid} guid:#{SecureRandom.hex(16)}"
    @locked = false
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
