# frozen_string_literal: true

require_relative "../../background"
require_relative "per_process"

module Plock
  class Store
    # The thread that notices when a server ends a connection on which a lock depends. It watches
    # all such connections of the process.
    #
    # Most locks are held for less than LOOK_S, and waking a thread costs more than such a lock. So
    # while connections are added and removed, nothing wakes this thread: it looks at them every
    # LOOK_S. When no connection has been added for a while, the thread sleeps until a socket has
    # data, or a connection is added or removed. It notices a loss within about LOOK_S, or within
    # UNSEEN_S if it sleeps and the socket is unknown.
    #
    # A watched connection has two methods. `watched_io` returns the IO of its socket, or nil.
    # `notice_end` checks the connection, and returns `:live`, `:busy` if another thread uses it, or
    # `:ended` after it has reported the loss.
    #
    # @api private
    class ConnectionWatch
      # Seconds between two looks while connections are added and removed, or while a connection
      # that is live or in use has data to read.
      LOOK_S = 0.01

      # After this many looks without a new connection, the thread goes to sleep, or ends if it
      # has no connection to watch.
      LOOKS = 25

      # Seconds between two checks of a connection whose socket is unknown, while the thread
      # sleeps.
      UNSEEN_S = 0.1

      @watches = PerProcess.new { new }

      def self.here = @watches.enter(&:itself)

      def initialize
        @lock = Mutex.new
        @watched = {}.compare_by_identity
        @looks_left = 0
        @asleep = false
        @thread = nil
      end

      def add(watched)
        change do
          @watched[watched] = watched.watched_io
          @looks_left = LOOKS
          @thread = Background.launch("plock watch") { run } unless @thread&.alive?
        end
      end

      # A check that has already begun may still run after this returns.
      def remove(watched)
        change { @watched.delete(watched) }
      end

      private

      # Runs the block, and wakes the thread if it sleeps. A removal must also wake it, because the
      # operating system does not close a socket while a thread waits for that socket.
      def change
        Thread.handle_interrupt(UNINTERRUPTED) do
          @lock.synchronize do
            yield
            @says.write_nonblock(".", exception: false) if @asleep
            @asleep = false
          end
        end
      end

      def run
        sleep(LOOK_S)
        until (watched = current).nil?
          due = @asleep ? await(watched) : find(watched)
          due.each { |one| check(one) }
          sleep(LOOK_S) if @looks_left.positive?
        end
      rescue IOError, SystemCallError
        look_again # a connection was closed before it was removed, or no pipe could be opened
        retry
      end

      # Also decides whether the thread goes to sleep now.
      #
      # @return [Hash, nil] the connections and their IOs; nil: there have been none for a while,
      #   and the thread must end
      def current
        @lock.synchronize do
          @watched.delete_if { |_one, io| io&.closed? }
          @asleep = false
          if @looks_left.positive? then @looks_left -= 1
          elsif @watched.empty?
            [@hears, @says].each { |io| io&.close }
            next @hears = @says = @thread = nil
          else
            @hears, @says = IO.pipe unless @hears
            @asleep = true
          end
          @watched.dup
        end
      end

      # @return [Array] the connections with data to read, and those whose socket is unknown
      def find(watched)
        ios = watched.compact.invert
        readable, = IO.select(ios.keys, nil, nil, 0)
        ios.values_at(*readable) + watched.keys.reject { |one| watched[one] }
      end

      def await(watched)
        IO.select([@hears, *watched.values.compact], nil, nil, (UNSEEN_S if watched.value?(nil)))
        @hears.read_nonblock(1, exception: false)
        find(watched)
      end

      def check(one)
        outcome = :ended
        Background.guard("watching a connection") { outcome = one.notice_end }
        if outcome == :ended then remove(one)
        elsif outcome == :busy || io_of(one) then look_again
        end
      end

      # A driver may refuse to tell the socket of a closed connection, so the connection itself is
      # not asked again.
      def io_of(one) = @lock.synchronize { @watched[one] }

      # Keeps the thread awake for LOOK_S. If it slept instead, unread data in a socket would wake
      # it at once, again and again.
      def look_again
        @lock.synchronize { @looks_left = [@looks_left, 1].max }
      end
    end
  end
end
