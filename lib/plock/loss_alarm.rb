# frozen_string_literal: true

require_relative "errors"

module Plock
  # Raises an error in the thread that is inside a block, as long as it is inside.
  #
  # Around the block, while a lock is acquired and released, the thread puts off every error of that
  # kind; inside it hears it. Whether it is inside is decided under a mutex, so that none is sent to
  # a thread that has left; one that was sent while the thread was leaving is taken back before the
  # mask ends.
  #
  # @api private
  class LossAlarm
    UNDISTURBED = { Object => :never }.freeze
    private_constant :UNDISTURBED

    # @return [LossAlarm] for {LeaseLost}, which warns of a loss that came too late for the block
    def self.for_leases
      new(LeaseLost) { |error| error.lease.warn_of_loss }
    end

    # @param kind [Class] of the error
    # @yieldparam error [Exception] that did not arrive inside, when the thread has left
    def initialize(kind, &missed)
      @deaf = { kind => :never }.freeze
      @hearing = { kind => :immediate }.freeze
      @kind = kind
      @missed = missed
      @lock = Mutex.new
      @thread = @error = nil
      @reachable = Fiber.current.blocking? # a thread's exception would meet any of its fibers
    end

    # @return [Exception, nil] the first one that was to be raised
    attr_reader :error

    # Around the way in, the block and the way out.
    #
    # @return [Object] the block's value
    def around
      Thread.handle_interrupt(@deaf) do
        yield
      ensure
        Thread.handle_interrupt(UNDISTURBED) { clear }
      end
    end

    # Around the block: here it is heard.
    #
    # @return [Object] the block's value
    def hearing(&block)
      @thread = Thread.current
      Thread.handle_interrupt(@hearing, &block)
    rescue StandardError => e # Active Record takes what arrives in the middle of a statement for a failure of that
      raise e.cause && e.cause.equal?(@error) ? @error : e
    ensure
      Thread.handle_interrupt(UNDISTURBED) { @lock.synchronize { @thread = nil } }
    end

    # From another thread. Only the first error counts.
    #
    # @return [Boolean] was the thread still inside?
    def raise_inside(error)
      @lock.synchronize do
        return false if @error

        @error = error
        return false unless @thread && @reachable

        @thread.raise(error)
        @sent = true
      end
    end

    private

    # Takes back what was sent and did not arrive inside. What comes with it belongs to a block
    # further out, and is sent again: it is heard when this thread is there.
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
