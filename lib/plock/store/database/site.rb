# frozen_string_literal: true

require "securerandom"
require_relative "../backoff"
require_relative "../turns"
require_relative "../../record"
require_relative "connections"
require_relative "listener"

module Plock
  class Store
    class Database
      # The database as one store sees it, and all that it has in this process: connections, who waits, who is to hear of losses.
      #
      # @api private
      class Site
        MICROSECONDS = 1_000_000.0

        # Seconds between two attempts of what collided with another transaction: no connection is kept in between.
        COLLISION_S = [0.002, 0.1].freeze

        # How long after it was interrupted the server may still carry out a statement.
        AFTERMATH_S = 2.0

        # Seconds between two attempts to take something back, after one that failed.
        RETRY_S = [0.1, 2.0].freeze

        # Seconds between two looks for what can be forgotten; while there is more, it goes on.
        PRUNE_S = 600.0
        PRUNE_ON_S = 0.05

        # How many connections beyond the pool's size a call can have: a release does not wait for those who ask, nor a renewal for
        # either.
        RELEASE = 1
        RENEWAL = 2

        attr_reader :connections, :tables, :turns, :release_timeout

        # @return [String, nil] on which this process can be called
        attr_reader :channel

        # @param scheduler [Scheduler] of the store
        # @param reach [Reach]
        def initialize(origin, scheduler, reach, pool_size:, release_timeout:, connect_timeout:)
          @connections = Connections.new(origin, pool_size, connect_timeout)
          @tables = origin.tables
          @release_timeout = release_timeout
          @reach = reach
          @calls = @tables.respond_to?(:tell)
          @scheduler = scheduler
          @turns = Turns.new
          @watched = {}
          @prune_at = Clock.now + rand(PRUNE_S)
          @forking = Mutex.new
          start_afresh
        end

        # @return [Integer]
        def micros(seconds) = (seconds * MICROSECONDS).round

        # What is written about an owner here.
        #
        # @return [String]
        def record(label, token)
          here
          Record.write(@channel && [@channel, *@listener.server_process].join("@"), label, token)
        end

        # Lends a connection, again where the work met another's.
        #
        # @param reserve [Integer] of connections beyond the pool's size that it can have
        # @yieldparam connection [Connection]
        # @return [Object] the block's value
        # @raise [Error]
        def work(deadline, reserve = 0, &block)
          @connections.with(deadline, reserve, &block).tap { @reach.answered }
        rescue Connection::Again
          raise unless Clock.now < deadline

          sleep((pause ||= Backoff.new(*COLLISION_S)).next)
          retry
        end

        # Gives a lease back, and calls the first who waits: where the database can, by the same statement.
        #
        # @param keep [Float] seconds that the key stays taken
        # @return [Boolean] was it held?
        def release(grant, keep, deadline)
          waiting, called = work(deadline, RELEASE) { |connection| release_over(connection, grant, keep, deadline) }
          if called then @turns.call(called)
          elsif waiting && keep.zero? then call_first(grant.key, deadline)
          end
          prune_by_and_by
          !waiting.nil?
        end

        # Somebody left: the first who waits is to look.
        #
        # @return [void]
        def call_first(key, deadline)
          holder, token = work(deadline, RELEASE) do |connection|
            next @tables.call_first(connection, key, @channel, deadline) if @calls

            @tables.first(connection, key, deadline)
          end
          holder ? @turns.call(token) : tidy(key, deadline)
        end

        # Forgets those who wait no more, so that the next caller need not look for them.
        #
        # @return [Boolean] does nobody have it, and nobody wait?
        def tidy(key, deadline)
          work(deadline, RELEASE) { |connection| @tables.tidy(connection, key, deadline) }
        end

        # @param holder [String, nil] what is noted of one who waits; nil: nobody does
        # @param token [String] its token
        # @return [void]
        def call(holder, token, deadline)
          tell(holder, "turn", token, deadline) if token && !@turns.call(token)
        end

        # Takes everything back that a token has of a key: the lease, or the place.
        #
        # @return [void]
        def settle(key, token, deadline)
          holder, next_token = work(deadline, RELEASE) { |connection| @tables.settle(connection, key, token, deadline) }
          call(holder, next_token, deadline)
        end

        # The same by and by, and once more: the server may still carry out what was interrupted. After a failure it is tried again,
        # less and less often.
        #
        # @return [void]
        def settle_later(key, token, until_time)
          times = [Clock.now + AFTERMATH_S, until_time]
          pause = Backoff.new(*RETRY_S, 2.0)
          @scheduler.call_later do
            settle(key, token, Clock.now + @release_timeout)
            times.shift if times.first < until_time
          rescue Error
            again = Clock.now + pause.next
            again if again < until_time
          end
        end

        # A lease of which losses are to be heard.
        #
        # @return [void]
        def watch(grant)
          return if hearing? && @watched[grant.token].equal?(grant)

          here
          @watched[grant.token] = grant
          listen(Clock.now)
        end

        # @return [void]
        def unwatch(grant)
          @watched.delete(grant.token)
        end

        # Tells those whose leases were taken away.
        #
        # @param owners [Array<Array(String, String)>] what is noted of them, and their tokens
        # @return [void]
        def tell_of_loss(owners, deadline)
          here
          owners.each do |holder, token|
            next hear_of_loss(token) if @watched.key?(token)

            tell(holder, "lost", token, deadline) if holder
          end
        end

        # What came in on the channel.
        #
        # @return [void]
        def hear(message)
          word, token = message.split(" ", 2)
          case word
          when "turn" then @turns.call(token)
          when "lost" then hear_of_loss(token)
          end
        end

        # Something may have been missed: those who wait look, and leases are asked after.
        #
        # @return [void]
        def hear_of_gap
          @turns.call_all
          @watched.values.each(&:ask_soon)
        end

        # @return [Boolean] is there anybody who would hear?
        def listening? = @turns.any? || @watched.any?

        # Has this process be called from now on.
        #
        # @return [Boolean] can it be relied on?
        def listen(deadline)
          return false unless @calls

          here
          @listener.start(deadline)
        end

        # @return [Boolean]
        def hearing? = @calls && @pid == Process.pid && @listener.hearing?

        # @return [void]
        def prune_by_and_by
          return if Clock.now < @prune_at

          @prune_at = Clock.now + PRUNE_S
          @scheduler.call_later do
            deadline = Clock.now + @release_timeout
            Clock.now + PRUNE_ON_S if work(deadline) { |connection| @tables.prune(connection, deadline) }
          rescue Error
            nil # another time
          end
        end

        # @return [void]
        def close
          @listener&.stop
          @connections.close
        end

        private

        # In a forked child, what the parent listens to and watches is the parent's.
        def here
          @forking.synchronize { start_afresh unless @pid == Process.pid }
        end

        def start_afresh
          @pid = Process.pid
          @watched = {}
          return unless @calls

          @channel = "plock_#{SecureRandom.hex(8)}"
          @listener = Listener.new(self)
        end

        # @return [Array(Boolean, String), Boolean, nil] nil: it was not held; else: may somebody be waiting, and who has been called?
        def release_over(connection, grant, keep, deadline)
          key, token = grant.key, grant.token
          return @tables.release_shared(connection, key, token, micros(keep), deadline) if grant.share
          return @tables.release_and_call(connection, key, token, @channel, deadline) if @calls && keep.zero?

          @tables.release(connection, key, token, micros(keep), deadline)
        end

        def tell(holder, word, token, deadline)
          channel = (Record.channel(holder)&.split("@")&.first if @calls)
          work(deadline, RELEASE) { |connection| @tables.tell(connection, channel, "#{word} #{token}", deadline) } if channel
        end

        def hear_of_loss(token)
          @watched[token]&.lose
        end
      end
    end
  end
end
