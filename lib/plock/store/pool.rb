# frozen_string_literal: true

require_relative "../clock"
require_relative "../errors"

module Plock
  class Store
    # The connections of one store that is written in Ruby. They are opened when they are needed, and lent to one at a time.
    #
    # What is lent is in its loan before anything can interrupt, so that one place takes it back. A forked child has none of its
    # parent's: they are forgotten there without a word to the server, those that are lent too.
    #
    # A connection answers to `usable?`, `close` and `discard`.
    #
    # @api private
    class Pool
      # A connection in somebody's hands, or the room for one.
      Loan = Struct.new(:connection, :room, :pool_pid)

      NEVER = { Object => :never }.freeze
      private_constant :Loan, :NEVER

      # @param size [Integer] connections at most
      # @yieldreturn [Object] a new connection
      def initialize(size, &open)
        @size = size
        @open = open
        start_afresh
      end

      # @param deadline [Float] on {Clock}
      # @yieldparam connection [Object]
      # @return [Object] the block's value
      # @raise [Error] none could be had until then
      def with(deadline)
        loan = Loan.new
        fill(loan, deadline)
        yield loan.connection
      ensure
        take_back(loan) if loan
      end

      # A place for {#fill} to put a connection in, and for {#take_back} to find it.
      #
      # @return [Loan]
      def loan = Loan.new

      # @return [void]
      # @raise [Error]
      def fill(loan, deadline)
        discard_all
        await_room(deadline) until Thread.handle_interrupt(NEVER) { @lock.synchronize { reserve(loan) } }
        return if loan.connection&.usable?

        drop(loan.connection) if loan.connection
        loan.connection = nil
        loan.connection = open
      end

      # @return [void]
      def take_back(loan)
        Thread.handle_interrupt(NEVER) do
          next unless loan.room && @pid == loan.pool_pid && @pid == Process.pid

          loan.room = nil
          put_back(loan.connection)
        end
      end

      # One that is nobody else's, and is to be closed by {#drop}.
      #
      # @return [Object]
      # @raise [Error]
      def open
        connection = @open.call
        @lock.synchronize { @all << connection }
        connection
      end

      # @return [void]
      def drop(connection)
        ours = @lock.synchronize { @all.delete(connection) }
        connection.close if ours
      end

      # Closes those that nobody uses at the moment.
      #
      # @return [void]
      def close
        idle = @lock.synchronize do
          @count -= @idle.size
          @idle.tap { @idle = [] }
        end
        idle.each { |connection| drop(connection) }
      end

      # In a forked child.
      #
      # @return [void]
      def discard_all
        return if @pid == Process.pid

        all = @all
        start_afresh
        all.each(&:discard)
      end

      private

      def start_afresh
        @pid = Process.pid
        @lock = Mutex.new
        @returned = ConditionVariable.new
        @idle = []
        @all = []
        @count = 0
      end

      # @return [Boolean] is there a connection, or room for one?
      def reserve(loan)
        loan.connection = @idle.pop
        return false if loan.connection.nil? && @count >= @size

        @count += 1 unless loan.connection
        loan.pool_pid = @pid
        loan.room = true
      end

      def await_room(deadline)
        left = deadline - Clock.now
        raise UnavailableError.new("all #{@size} connections of the store are in use", code: :busy) unless left.positive?

        @lock.synchronize { @returned.wait(@lock, left) if @idle.empty? && @count >= @size }
      end

      def put_back(connection)
        idle = connection&.usable?
        drop(connection) if connection && !idle
      ensure
        @lock.synchronize do
          idle ? @idle << connection : @count -= 1
          @returned.signal
        end
      end
    end
  end
end
