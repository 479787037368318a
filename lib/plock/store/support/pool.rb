# frozen_string_literal: true

require_relative "../../background"
require_relative "../../clock"
require_relative "../../errors"

module Plock
  class Store
    # The connections of one store that is written in Ruby. They are opened when they are needed,
    # and lent to one at a time. Calls that must not wait behind others can have more than the
    # pool's size: a release one more, a renewal two.
    #
    # What is lent is in its loan before anything can interrupt, so that one place takes it back. A
    # forked child has none of its parent's: they are forgotten there without a word to the server,
    # those that are lent too.
    #
    # A connection answers to `usable?`, `close` and `discard`.
    #
    # @api private
    class Pool
      # A connection in somebody's hands, or the room for one, for which another thread may be
      # connecting.
      Loan = Struct.new(:connection, :room, :pool_pid, :connecting)

      SIZES = (1..1024).freeze

      # How many connections beyond the pool's size a call can have: a release does not wait for
      # those who ask, nor a renewal for either.
      RELEASE = 1
      RENEWAL = 2

      NEVER = { Object => :never }.freeze

      # Seconds between two looks of a fiber for a connection. It cannot wait for a broadcast: that
      # goes on to the next waiter while other fibers run, and one that gives up meanwhile is memory
      # that was freed (seen on Ruby 3.1).
      LOOK_S = 0.005

      private_constant :Loan, :NEVER, :LOOK_S

      # @yieldreturn [Object] a new connection
      def initialize(size, &open)
        @size = size
        @open = open
        start_afresh
      end

      # @param deadline [Float] on {Clock}
      # @param reserve [Integer] of connections that this call can have besides
      # @raise [Error] none could be had until then
      def with(deadline, reserve = 0)
        loan = Loan.new
        begin
          fill(loan, deadline, reserve)
          yield loan.connection
        ensure
          take_back(loan) # whatever is before its mask can be interrupted, a branch too
        end
      end

      # A place for {#fill} to put a connection in, and for {#take_back} to find it.
      def loan = Loan.new

      def fill(loan, deadline, reserve = 0)
        discard_all
        @closed = false if reserve.zero?
        until Thread.handle_interrupt(NEVER) { @lock.synchronize { reserve(loan, reserve) } }
          await_room(deadline, reserve)
        end
        return if loan.connection&.usable?

        drop(loan.connection) if loan.connection
        loan.connection = nil
        if @made && Background.over?
          raise UnavailableError.new(
            "the process is ending: no connection is made any more",
                  code: :closed
          )
        end

        connect(loan, deadline)
      end

      def take_back(loan)
        Thread.handle_interrupt(NEVER) do
          next unless loan.room && @pid == loan.pool_pid && @pid == Process.pid

          connecting = @lock.synchronize do
            loan.room = nil
            loan.connecting
          end
          put_back(loan.connection) unless connecting # else that thread does it
        end
      end

      # One that is nobody else's, and is to be closed by {#drop}.
      def open(deadline = Float::INFINITY)
        loan = Loan.new(nil, true)
        connect(loan, deadline)
        loan.connection
      ensure
        # what comes later is closed
        Thread.handle_interrupt(NEVER) { @lock.synchronize { loan.room = nil } }
      end

      def drop(connection)
        ours = @lock.synchronize { @all.delete(connection) }
        connection.close if ours
      end

      # Closes those that nobody uses at the moment, and others when they are given back, until
      # somebody asks for one again.
      def close
        idle = @lock.synchronize do
          @closed = true
          @count -= @idle.size
          @idle.tap { @idle = [] }
        end
        idle.each { |connection| drop(connection) }
      end

      # In a forked child.
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
        @closed = @made = false
      end

      # Puts a new connection into the loan.
      def connect(loan, _deadline) = fulfil(loan)

      # A loan that has been given back meanwhile takes none: then the connection is the pool's.
      def fulfil(loan)
        begun = @lock.synchronize { loan.connecting = !loan.room.nil? }
        connection = @open.call if begun
      ensure
        Thread.handle_interrupt(NEVER) do
          next unless begun

          abandoned = @lock.synchronize do
            @made = true if connection # one that has a lease has had one
            @all << connection if connection
            loan.connection = connection
            loan.connecting = false
            loan.room.nil?
          end
          if abandoned && loan.pool_pid then put_back(connection)
          elsif abandoned && connection then drop(connection)
          end
        end
      end

      # @return [Boolean] is there a connection, or room for one?
      def reserve(loan, more)
        # nothing would end a new one
        return false if full?(more) || (@idle.empty? && Background.over? && @all.any?)

        loan.connection = @idle.pop
        @count += 1 unless loan.connection
        loan.pool_pid = @pid
        loan.room = true
      end

      # Are so many lent?
      def full?(more) = @count - @idle.size >= @size + more

      def await_room(deadline, more)
        left = deadline - Clock.now
        unless left.positive?
          raise UnavailableError.new(
            "all #{@size} connections of the store are in use",
                  code: :saturated
          )
        end

        if Fiber.current_scheduler then sleep([left, LOOK_S].min)
        else @lock.synchronize { @returned.wait(@lock, left) if full?(more) }
        end
      end

      def put_back(connection)
        idle = connection&.usable? && !@closed
        drop(connection) if connection && !idle
      ensure
        @lock.synchronize do
          idle ? @idle << connection : @count -= 1
          @returned.broadcast
        end
      end
    end
  end
end
