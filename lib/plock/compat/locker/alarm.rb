# frozen_string_literal: true

class Locker
  # Raises an error in the thread that runs a block, as long as it is inside, and nowhere else in there: at the end of the block, what has
  # not arrived is raised by whoever runs it.
  #
  # @api private
  class Alarm
    # @param kind [Class] of the error
    def initialize(kind)
      @kind = kind
      @lock = Mutex.new
      @thread = @error = nil
      @reachable = Fiber.current.blocking? # a thread's exception would meet any of its fibers
    end

    # @return [Exception, nil] that was to be raised
    attr_reader :error

    # @yield the block, and what comes before and after it
    # @return [Object] the block's value
    def around(&block)
      Thread.handle_interrupt(@kind => :never, &block)
    end

    # @yield where the error may arrive
    # @return [Object] the block's value
    def hearing(&block)
      @thread = Thread.current
      Thread.handle_interrupt(@kind => :immediate, &block)
    rescue ActiveRecord::StatementInvalid => e # Active Record takes what arrives in the middle of a statement for a failure of that
      raise e.cause.equal?(@error) ? @error : e
    ensure
      Thread.handle_interrupt(Object => :never) { @lock.synchronize { @thread = nil } }
    end

    # From another thread. Only the first one counts.
    #
    # @return [void]
    def call(message)
      @lock.synchronize do
        next if @error

        @error = @kind.new(message)
        @thread.raise(@error) if @thread && @reachable
      end
    end
  end
end
