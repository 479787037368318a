# frozen_string_literal: true

require_relative "../../background"
require_relative "../../brief_mutex"
require_relative "connection"

module Plock
  class Store
    class Database
      # The thread that receives PostgreSQL's notifications for one store, over a connection of its
      # own. It runs while there are waiters or watched leases, and for IDLE_S afterwards.
      #
      # The thread first sends itself a message over another connection. If a pooler lends a server
      # connection to each transaction, the message does not arrive. In that case, the thread logs a
      # warning, and waiters poll.
      #
      # @api private
      class Listener
        HELLO = "hello"

        # These times are in seconds. A caller of {#start} checks every LOOK_S whether the thread
        # listens. CONFIRM_S limits each statement, and the wait for HELLO. The thread waits at most
        # ROUND_S for one message. It pauses for RETRIES_S after failures, and for DEAF_S if HELLO
        # does not arrive.
        LOOK_S = 0.001
        CONFIRM_S = 3.0
        IDLE_S = 30.0
        ROUND_S = 5.0
        RETRIES_S = [0.1, 0.5, 2.0, 5.0].freeze
        DEAF_S = 60.0

        def initialize(site)
          @site = site
          @lock = BriefMutex.new
          @hearing = @deaf = @told = @stopping = false
          @thread = nil
        end

        def hearing? = @hearing

        # @return [Integer, nil] the server process of the listening connection; nil: the thread is
        #   not listening
        attr_reader :server_process

        # The caller polls until the thread listens. A timeout may stop the caller's fiber at any
        # time, so the caller holds no mutex while it polls.
        #
        # @return [Boolean] does the thread receive notifications?
        def start(deadline)
          return true if @hearing

          started = @lock.synchronize do
            @stopping = false
            @thread = Background.launch("plock listener") { run } unless @thread&.alive?
            @thread
          end
          sleep(LOOK_S) until started.nil? || @hearing || @deaf || Clock.now >= deadline
          @hearing
        end

        def stop
          @stopping = true
        end

        private

        def run
          failures = 0
          until over?
            begin
              listen { failures = 0 }
            rescue Error => e
              raise if Background.killed?

              now_hearing(false, deaf: @deaf)
              if (failures += 1) == RETRIES_S.size
                Log.failure(Plock.logger, "the listener of a store in a database", e)
              end
              sleep(RETRIES_S[[failures, RETRIES_S.size].min - 1])
            end
          end
        end

        def listen
          connection = @site.connections.open
          process = @site.tables.announce_listener(connection, Clock.now + CONFIRM_S)
          connection.run("LISTEN #{@site.channel}", Clock.now + CONFIRM_S)
          return hear_nothing unless confirmed?(connection)

          @server_process = process
          yield
          now_hearing(true)
          @site.hear_of_gap
          hear(connection)
        ensure
          Thread.handle_interrupt(UNINTERRUPTED) do
            @server_process = nil
            now_hearing(false, deaf: @deaf)
            @site.connections.drop(connection) if connection
          end
        end

        def confirmed?(connection)
          deadline = Clock.now + CONFIRM_S
          @site.work(deadline) { |other| @site.tables.tell(other, @site.channel, HELLO, deadline) }
          deadline = Clock.now + CONFIRM_S # a busy process may have used up the first deadline
          while (left = deadline - Clock.now).positive?
            return true if connection.hear(left) == HELLO
          end
          false
        end

        def hear(connection)
          idle_at = Clock.now + IDLE_S
          until @stopping
            message = connection.hear(ROUND_S)
            @site.hear(message) if message
            idle_at = Clock.now + IDLE_S if @site.listening?
            break if Clock.now >= idle_at
          end
        end

        def hear_nothing
          now_hearing(false, deaf: true)
          unless @told
            @told = true
            Log.warn(
              Plock.logger,
              "PostgreSQL's notifications do not arrive (is there a pooler in between?): waiters " \
                "poll, and get their locks later. Connect to PostgreSQL itself."
            )
          end
          sleep(DEAF_S)
        end

        def now_hearing(hearing, deaf: false)
          @lock.synchronize do
            @hearing = hearing
            @deaf = deaf
          end
        end

        # Decides under the same mutex as {#start}. So {#start} either finds the thread running, or
        # starts a new one.
        def over?
          @lock.synchronize do
            next false unless @stopping || !@site.listening?

            @thread = nil
            true
          end
        end
      end
    end
  end
end
