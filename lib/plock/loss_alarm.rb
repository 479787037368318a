# frozen_string_literal: true

require_relative "errors"
require_relative "uninterrupted"

module Plock
  # Raises an error in a thread, but only while the thread is inside a certain block.
  #
  # The thread masks errors of that kind while it acquires and releases the lock. Inside the block
  # it receives them. A mutex protects the record of whether the thread is inside, so no error is
  # sent to a thread that has left the block. An error that was sent while the thread was leaving
  # is caught before the mask ends.
  #
  # Thread#raise interrupts the fiber that the thread is running. If the block's own fiber is
  # suspended, as that of an Enumerator is between two calls of `next`, no error is sent.
  #
  # @api private
  class LossAlarm
    # @return [LossAlarm] an alarm for {LeaseLost}; it warns of a loss that came too late to be
    #   raised in the block
    def self.for_leases = new(LeaseLost) { |error| error.lease.warn_of_loss }

    # @param kind [Class] the class of the error
    # @yieldparam error [Exception] an error that did not arrive before the thread left the block
    def initialize(kind, &missed)
      LossAlarm.announce(kind)
      @deaf = { kind => :never }.freeze
      @hearing = { kind => :immediate }.freeze
      @kind = kind
      @missed = missed
      @lock = Mutex.new
      @thread = @fiber = @error = @entered = nil
      @reachable = Fiber.scheduler.nil? # under a scheduler, Thread#raise could reach another fiber
    end

    NOTHING = {}.freeze

    # The end of `Fiber#to_s` if the fiber waits for its next `resume`. A fiber that has resumed
    # another fiber is "suspended by resuming" instead.
    SUSPENDED = "(suspended)>"

    private_constant :NOTHING, :SUSPENDED

    @mask = { LeaseLost => :never }.freeze

    class << self
      # @return [Hash] for Thread.handle_interrupt: defers the errors of all alarms of this
      #   Ractor. Under a Fiber scheduler nothing is masked, see {Interrupts}.
      def mask = Fiber.current_scheduler ? NOTHING : @mask

      # Adds a kind of error to the mask. In other Ractors than the main one, this does nothing: the
      # mask protects calls of subscribers, and only the main Ractor calls subscribers.
      def announce(kind)
        return if @mask.key?(kind) || !Events.here?

        @mask = { **@mask, kind => :never }.freeze
      end
    end

    # @return [Exception, nil] the first error that {#raise_inside} received
    attr_reader :error

    # Runs a block, which must contain the acquire, the call to {#hearing} and the release.
    def around
      Thread.handle_interrupt(@deaf) do
        yield
      ensure
        Thread.handle_interrupt(UNINTERRUPTED) { clear }
      end
    end

    # Runs the block, in which the error can arrive. If the error came before the block could begin,
    # this method raises it at once, and does not run the block.
    def hearing(&block)
      early = Thread.handle_interrupt(UNINTERRUPTED) { enter }
      raise early if early

      Thread.handle_interrupt(@hearing, &block)
    rescue StandardError => e # Active Record wraps an error that arrives during a statement
      raise e.cause && e.cause.equal?(@error) ? @error : e
    ensure
      Interrupts.complete { @lock.synchronize { @thread = nil } }
    end

    # Called from another thread. Only the first error counts.
    #
    # @return [Boolean] will the error be raised? Not if this alarm has already received an error,
    #   if the thread has left the block, if the block's fiber is suspended, or if the block runs
    #   under a Fiber scheduler
    def raise_inside(error)
      @lock.synchronize do
        return false if @error

        @error = error
        return !@entered unless @thread
        return false if !@reachable || @fiber.to_s.end_with?(SUSPENDED)

        @thread.raise(error)
        @sent = true
      end
    end

    private

    def enter
      @lock.synchronize do
        @entered = true
        @thread = Thread.current
        @fiber = Fiber.current
        @error
      end
    end

    # Catches this alarm's error if the error did not arrive inside the block. This also catches
    # other errors of the same kind, which belong to outer blocks. It raises them again in this
    # thread. The mask defers them until the thread is back in the outer block.
    def clear
      return unless @sent

      others = []
      others << @heard until hear_no_more?
      others.each { |error| Thread.current.raise(error) unless error.equal?(@error) }
      @missed.call(@error) if others.include?(@error)
    end

    def hear_no_more?
      Thread.handle_interrupt(@hearing) { Thread.pass }
      true
    rescue @kind => e
      @heard = e
      false
    end
  end
end
