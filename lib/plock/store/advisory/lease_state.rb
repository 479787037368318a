# frozen_string_literal: true

require_relative "../../record"
require_relative "../support/lease_state"

module Plock
  class Store
    class Advisory
      # A lease whose lock belongs to a connection.
      #
      # @api private
      class LeaseState < Store::LeaseState
        BOUND = "an advisory lock cannot be handed over: it belongs to a connection"

        # The longest time, in seconds, that a check waits for another thread's check of the same
        # connection. Such a check ends as soon as its thread runs.
        CHECK_S = 0.25

        # Seconds between two looks whether that check has ended.
        LOOK_S = 0.0005
        private_constant :CHECK_S, :LOOK_S

        # @return [Hash{Symbol => Object}] host, pid, thread and label, as {Status} reports them
        attr_reader :owner

        # When the request began to wait, or the lease was granted, in seconds since 1970.
        attr_reader :since

        # @return [Integer, nil] nil: the request has neither waited nor been granted
        attr_reader :server_id

        # @return [Float, nil] until when, on {Clock}, the key stays taken after the release
        attr_accessor :kept_until

        def initialize(store, *, **options)
          super
          @owner = Record.own(options[:label])
          @since = Clock.wall
          @unlocking = BriefMutex.new
          @loan = store.pool.loan
          @parted = false
          @checking = false # whether a thread checks the connection now
          @server_id = @connections = nil
        end

        # The lease ends when its connection ends, so a thread watches the connection.
        def given(*)
          super
          (@connections = ConnectionWatch.here).add(self)
          self
        end

        # The failed attempt's connection has been taken back, so the next attempt borrows one.
        def token=(token)
          super
          @loan = @store.pool.loan
          @parted = false
          @server_id = nil
        end

        def leave
          raise UnsupportedError, BOUND
        end

        def pending? = @loan.state && !@parted

        def valid?
          super && check != :ended && super
        end

        def lost?
          check == :ended ? !inherited? && (ended.nil? || super) : super
        end

        def watched_io = connection&.socket

        def notice_end
          return :ended if ended || inherited?
          return :busy if @lock.owned?

          Thread.handle_interrupt(UNINTERRUPTED) { look }
        end

        def connection = @loan.connection

        def connect(deadline)
          @store.pool.fill(@loan, deadline)
        end

        def note(server_id)
          @server_id = server_id
          @since = Clock.wall
          @store.here.enter { |here| here[server_id] = self }
        end

        # Runs the block when no other thread uses the lease's connection. A check of the lease may
        # still be running after the lease has expired. With trilogy, Ruby crashes if the connection
        # is closed during that check.
        def in_turn(&block) = alone(&block)

        # Releases the lock, and returns the connection to the pool. Only the first call has an
        # effect. If the server does not answer, this closes the connection, which ends the lock.
        #
        # @return [Boolean] was the lock held?
        def unlock(deadline)
          held = false
          part do |connection|
            held = connection.usable?
            held &&= @store.locks.unlock(connection, key, share, server_id, deadline)
          end
          held
        rescue UnavailableError
          held
        end

        # Breaks a lease of this process. If the caller is inside the lease's own block, the loss
        # raises an error in this thread, but not before the lock is released.
        #
        # @return [Boolean] was there anything to break?
        def take_away(deadline)
          return unlock(deadline) if kept_until

          Interrupts.defer do
            asking do
              lose
              unlock(deadline)
              true
            end
          end
        end

        # Like {#unlock}, for a connection that may or may not hold the lock.
        def abandon(deadline)
          part { |connection| connection.usable? && @store.locks.clean(connection, deadline) }
        rescue Error
          nil # the connection has been closed
        end

        private

        # Does the same as {#notice_end}, but waits while another thread checks the connection.
        # Without that, a lease could seem valid after another caller has its key: if the other
        # thread has found that the connection ended, but has not noted it yet.
        def check
          deadline = nil
          loop do
            checking = @checking
            outcome = notice_end
            return outcome unless outcome == :busy && (checking || @checking)
            return outcome if Clock.now >= (deadline ||= Clock.now + CHECK_S)

            Kernel.sleep(LOOK_S)
          end
        end

        # Requires that this thread does not hold @lock.
        def look
          return :busy unless @lock.try_lock

          @checking = true
          return :live if ended || connection&.lives?

          # noting the loss takes mutexes; the thread that watches the connection does it soon
          lose unless Background.signal_handler?
          :ended
        ensure
          Interrupts.complete do
            if @lock.owned?
              @checking = false
              @lock.unlock
            end
          end
        end

        def part
          @unlocking.hold do
            next false if @parted || inherited?

            @parted = true
            begin
              clean = yield connection if connection
            ensure
              Interrupts.complete do
                connection&.spoil unless clean
                @connections&.remove(self)
                @store.here.enter { |here| here.delete(server_id) } if server_id
                @store.pool.take_back(@loan)
              end
            end
          end
        end
      end
    end
  end
end
