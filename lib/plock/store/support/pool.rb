# frozen_string_literal: true

require_relative "../../background"
require_relative "../../brief_mutex"
require_relative "../../clock"
require_relative "../../errors"
require_relative "../../pool_status"

module Plock
  class Store
    # The connections of one store in Ruby. They are opened on demand, and each is lent to one
    # thread at a time.
    #
    # A connection is recorded in its loan before an interrupt can occur, so no connection is lost.
    # A forked child discards all connections of its parent, even lent ones, and sends nothing on
    # them.
    #
    # A connection has the methods `usable?`, `finished?`, `close` and `discard`. An idle connection
    # may break at any time, so the pool checks `usable?` when it lends a connection, and not when
    # the connection is returned.
    #
    # @api private
    class Pool
      # A lent connection, or room for one. The states:
      #
      #   nil         nothing is lent
      #   :lent       the borrower has a connection, or room for one
      #   :connecting a thread is opening the connection
      #   :returning  the borrower is putting the loan back
      #   :abandoned  the borrower was done while a thread was still connecting. When that thread
      #               has finished, it puts the loan back itself
      Loan = Struct.new(:connection, :state, :pool_pid)

      # RETURNED gives the state after the borrower has returned the loan. FULFILLED gives the state
      # after a thread has connected. A state may map to itself, because these steps run again if a
      # signal handler cuts them off.
      RETURNED = {
        lent: :returning, returning: :returning, connecting: :abandoned, abandoned: :abandoned
      }.freeze
      FULFILLED = { connecting: :lent, lent: :lent, abandoned: :abandoned }.freeze

      SIZES = (1..1024).freeze

      # By how many connections a call can exceed the pool's size. So a release does not wait for
      # acquires, and a renewal waits for neither releases nor acquires.
      RELEASE = 1
      RENEWAL = 2

      # Seconds between two attempts of a fiber to get a connection. A fiber must not wait for the
      # condition variable. On Ruby 3.1, its broadcast uses freed memory if another waiting fiber
      # gives up at the same time.
      LOOK_S = 0.005

      private_constant :Loan, :LOOK_S, :RETURNED, :FULFILLED

      def initialize(size, &open)
        @size = size
        @open = open
        start_afresh
      end

      # @param deadline [Float] a time of {Clock}
      # @param reserve [Integer] RELEASE, RENEWAL, or 0 for other calls
      # @raise [Error] no connection was available before the deadline
      def with(deadline, reserve = 0)
        loan = Loan.new
        begin
          fill(loan, deadline, reserve)
          yield loan.connection
        ensure
          take_back(loan) # no branch before this call: Ruby may interrupt at a branch
        end
      end

      def loan = Loan.new

      def fill(loan, deadline, reserve = 0)
        discard_all
        @closed = false if reserve.zero?
        queue(loan, deadline, reserve) unless reserve(loan, reserve)
        return if loan.connection&.usable?

        drop(loan.connection) if loan.connection
        loan.connection = nil
        if @made && Background.over?
          raise UnavailableError.new(
            "the process is ending: no connection is made any more", code: :closed
          )
        end

        connect(loan, deadline)
      end

      def take_back(loan)
        Interrupts.complete do
          next unless loan.state && @pid == loan.pool_pid && @pid == Process.pid

          state = @lock.synchronize { loan.state = RETURNED[loan.state] }
          put_back(loan) if state == :returning
        end
      end

      # Opens a connection that does not count toward the pool's size. The caller must {#drop} it.
      def open(deadline = Float::INFINITY)
        loan = Loan.new(nil, :lent)
        connect(loan, deadline)
        loan.connection
      ensure
        # if a thread is still opening the connection, that thread closes it
        @lock.synchronize { loan.state = RETURNED[loan.state] }
      end

      def drop(connection)
        # forgets the connection last, so that `drop` can run again if a signal handler raises
        connection.close if @lock.synchronize { @all.include?(connection) }
        @lock.synchronize { @all.delete(connection) }
      end

      # Closes idle connections at once, and lent connections when they are returned. The pool opens
      # again when a caller asks for a connection.
      def close
        idle = @lock.synchronize do
          @closed = true
          idle = @idle
          count = @count - idle.size
          # no signal handler can run between these assignments: all are made, or none is
          @idle = []
          @count = count
          idle
        end
        Interrupts.complete { idle.each { |connection| drop(connection) } }
      end

      def status
        discard_all
        @lock.synchronize do
          idle = @idle.size
          PoolStatus.new(@size, @count - idle, idle, @waiting, @waits)
        end
      end

      # In a forked child only.
      def discard_all
        return if @pid == Process.pid

        all = @all
        start_afresh
        all.each(&:discard)
      end

      private

      def start_afresh
        @pid = Process.pid
        @lock = BriefMutex.new
        @returned = ConditionVariable.new
        @idle = []
        @all = []
        @count = @waiting = @waits = 0
        @closed = @made = false
      end

      def connect(loan, _deadline) = fulfil(loan)

      # Opens a connection for the loan. If the loan was returned in the meantime, the pool keeps
      # the connection, or closes it if {#open} made the loan.
      def fulfil(loan)
        begun = false
        @lock.synchronize { begun = loan.state == :lent && (loan.state = :connecting) }
        connection = @open.call if begun
      ensure
        Interrupts.complete do
          next unless begun

          state = @lock.synchronize do
            @made = true if connection # after the first one, none is opened while the process ends
            @all << connection if connection
            loan.connection = connection
            loan.state = FULFILLED[loan.state]
          end
          if state == :abandoned
            if loan.pool_pid then put_back(loan)
            elsif connection then drop(connection)
            end
          end
        end
      end

      # @return [Boolean] was there a connection, or room for one?
      def reserve(loan, more)
        @lock.synchronize do
          # a new connection is refused while the process ends, because nothing would close it
          next false if full?(more) || (@idle.empty? && Background.over? && @all.any?)

          loan.connection = @idle.last
          loan.pool_pid = @pid
          idle = @idle[0...-1]
          count = loan.connection ? @count : @count + 1
          # no signal handler can run between these assignments: all are made, or none is
          @idle = idle
          @count = count
          loan.state = :lent
        end
      end

      def queue(loan, deadline, more)
        waits = false
        @lock.synchronize do
          @waits += 1
          @waiting += 1
          waits = true
        end
        await_room(deadline, more) until reserve(loan, more)
      ensure
        Interrupts.complete do
          @lock.synchronize do
            waiting = waits ? @waiting - 1 : @waiting
            # no signal handler can run between these assignments: all are made, or none is
            @waiting = waiting
            waits = false
          end
        end
      end

      def full?(more) = @count - @idle.size >= @size + more

      def await_room(deadline, more)
        left = deadline - Clock.now
        unless left.positive?
          raise UnavailableError.new(
            "all #{@size} connections of the store are in use", code: :saturated
          )
        end

        if Fiber.current_scheduler then sleep([left, LOOK_S].min)
        else @lock.hold { @returned.wait(@lock, left) if full?(more) }
        end
      end

      def put_back(loan)
        connection = loan.connection
        idle = connection&.finished? && !@closed
        begin
          drop(connection) if connection && !idle
        rescue StandardError => e
          failure = e # raised only after the place in the pool is free
        end
        kept = idle ? [connection] : []
        @lock.synchronize do
          idle = @idle + kept
          count = @count + kept.size - 1
          # no signal handler can run between these assignments: all are made, or none is
          loan.state = nil
          @idle = idle
          @count = count
          @returned.broadcast
        end
        raise failure if failure
      end
    end
  end
end
