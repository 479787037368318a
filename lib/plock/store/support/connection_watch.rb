# frozen_string_literal: true

require_relative "../../background"
require_relative "per_process"

module Plock
  class Store
    # The thread that notices when a server ends a connection on which a lock depends. It waits for
    # all such connections of the process at once.
    #
    # A watched connection has two methods. `watched_io` returns the IO of its socket, or nil.
    # `notice_end` checks the connection, and returns `:live`, `:busy` if another thread uses it, or
    # `:ended` after it has reported the loss.
    #
    # @api private
    class ConnectionWatch
      # Seconds between two checks of a connection: LOOK_S if its socket cannot be waited for,
      # AGAIN_S if another thread uses it, or if it has data to read and is live.
      LOOK_S = 0.1
      AGAIN_S = 0.01

      @watches = PerProcess.new { new }

      # @return [ConnectionWatch] of this process
      def self.here = @watches.enter(&:itself)

      def initialize
        @lock = Mutex.new
        @watched = {}.compare_by_identity
        @thread = nil
      end

      # @param watched [#watched_io, #notice_end]
      def add(watched)
        change do
          @watched[watched] = watched.watched_io
          @hears, @says = IO.pipe unless @hears
          @thread = Background.launch("plock watch") { run } unless @thread&.alive?
        end
      end

      # A check that has begun may still end after this.
      def remove(watched)
        change { @watched.delete(watched) }
      end

      private

      def change
        Thread.handle_interrupt(Object => :never) do
          @lock.synchronize do
            yield
            @says&.write_nonblock(".", exception: false)
          end
        end
      end

      def run
        resting = {}.compare_by_identity
        until (watched = current).nil?
          ios = watched.reject { |one, io| io.nil? || resting[one] }.invert
          readable, = IO.select([@hears, *ios.keys], nil, nil, pause(watched, resting))
          @hears.read_nonblock(64, exception: false) if readable&.include?(@hears)
          due =
            (readable || []).filter_map { |io| ios[io] } + resting.keys +
            watched.reject { |_one, io| io }.keys
          resting.clear
          due.uniq.each { |one| look(one, resting) }
        end
      rescue IOError, SystemCallError
        sleep(AGAIN_S) # a connection was closed before it was removed
        retry
      end

      # @return [Hash, nil] nil: there is nothing to watch
      def current
        @lock.synchronize do
          @watched.delete_if { |_one, io| io&.closed? }
          @watched.empty? ? rest : @watched.dup
        end
      end

      def rest
        [@hears, @says].each(&:close)
        @hears = @says = @thread = nil
      end

      def pause(watched, resting)
        return AGAIN_S if resting.any?

        LOOK_S if watched.value?(nil)
      end

      def look(watched, resting)
        outcome = :ended
        Background.guard("watching a connection") { outcome = watched.notice_end }
        if outcome == :ended then remove(watched)
        elsif outcome == :busy || watched.watched_io then resting[watched] = true
        end
      end
    end
  end
end
