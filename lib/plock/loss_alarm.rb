# frozen_string_literal: true

require_relative "errors"

module Plock
  # Raises {LeaseLost} in the thread that is inside a block, as long as it is inside.
  #
  # Around the block, while the lease is acquired and released, the thread puts off every LeaseLost; inside it hears it. Whether
  # it is inside is decided under a mutex, so that none is sent to a thread that has left; one that was sent while it was just
  # leaving is taken back before the mask ends.
  #
  # @api private
  class LossAlarm
    DEAF = { LeaseLost => :never }.freeze
    HEARING = { LeaseLost => :immediate }.freeze
    UNDISTURBED = { Object => :never }.freeze
    private_constant :DEAF, :HEARING, :UNDISTURBED

    def initialize
      @lock = Mutex.new
      @thread = nil
      @error = nil
    end

    # Around the way in, the block and the way out.
    #
    # @return [Object] the block's value
    def around
      Thread.handle_interrupt(DEAF) do
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
      Thread.handle_interrupt(HEARING, &block)
    ensure
      Thread.handle_interrupt(UNDISTURBED) { @lock.synchronize { @thread = nil } }
    end

    # From another thread. At most once.
    #
    # @param error [LeaseLost]
    # @return [Boolean] was the thread still inside?
    def raise_inside(error)
      @lock.synchronize do
        return false if @thread.nil? || @error

        @error = error
        @thread.raise(error)
        true
      end
    end

    private

    # Takes back what was sent and did not arrive inside. What comes with it belongs to a block further out, and is sent again:
    # it is heard when this thread is there. Of a loss that came too late for the block to hear of it is warned.
    def clear
      return unless @error

      others = []
      others << @heard until hear_no_more?
      others.each { |error| Thread.current.raise(error) unless error.equal?(@error) }
      @error.lease.warn_of_loss if others.include?(@error)
    end

    def hear_no_more?
      Thread.handle_interrupt(HEARING) { Thread.pass }
      true
    rescue LeaseLost => e
      @heard = e
      false
    end
  end
end
