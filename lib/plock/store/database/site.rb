# frozen_string_literal: true

require "securerandom"
require_relative "../keeper"
require_relative "../turns"
require_relative "../../record"
require_relative "connections"
require_relative "line"
require_relative "listener"

module Plock
  class Store
    class Database
      # The database as one store sees it, and all that it has in this process: connections, who waits, who is to hear of losses.
      #
      # @api private
      class Site
        MICROSECONDS = 1_000_000.0

        # Something that collided with another transaction is tried again a moment later.
        COLLISION_S = 0.005

        # How long after it was interrupted the server may still carry out a statement.
        AFTERMATH_S = 2.0

        # Seconds until the first attempt after one that failed.
        RETRY_S = 0.1

        # Seconds between two looks for what can be forgotten.
        PRUNE_S = 3_600.0

        attr_reader :connections, :tables, :keeper, :turns, :attempt_timeout, :release_timeout

        # @return [Reach]
        attr_reader :reach

        # @return [String, nil] on which this process can be called
        attr_reader :channel

        def initialize(origin, pool_size:, attempt_timeout:, release_timeout:, connect_timeout:,
                       reach:)
          @connections = Connections.new(origin, pool_size, connect_timeout)
          @tables = origin.tables
          @attempt_timeout = attempt_timeout
          @release_timeout = release_timeout
          @reach = reach
          @calls = @tables.respond_to?(:tell)
          @keeper = Keeper.new
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
          Record.write(@channel, label, token)
        end

        # Lends a connection, again where the work met another's.
        #
        # @yieldparam connection [Connection]
        # @return [Object] the block's value
        # @raise [Error]
        def work(deadline, &block)
          @connections.with(deadline, &block).tap { @reach.answered }
        rescue Connection::Again
          raise unless Clock.now < deadline

          sleep(rand(COLLISION_S))
          retry
        end

        # The same, with the row of a key locked.
        #
        # @yieldparam connection [Connection]
        # @yieldparam head [Tables::Head]
        # @yieldparam line [Line]
        # @return [Object] the block's value
        def work_on(key, deadline)
          work(deadline) do |connection|
            connection.transaction(deadline) do
              head = @tables.lock(connection, key, deadline)
              yield connection, head, Line.new(head, @tables.claims(connection, key, deadline))
            end
          end
        end

        # Gives a lease back, and calls the first who waits: where the database can, by the same statement. Where no answer comes, it is
        # made up for; not where the owner's name is his own, and he may ask again by it.
        #
        # @param keep [Float] seconds that the key stays taken
        # @return [Boolean] was it held?
        def release(grant, keep, deadline)
          waiting, called = work(deadline) { |connection| release_over(connection, grant, keep, deadline) }
          answered = true
          if called then @turns.call(called)
          elsif waiting && keep.zero? then call_first(grant.key, deadline)
          end
          prune_by_and_by
          !waiting.nil?
        ensure
          settle_later(grant.key, grant.token, grant.valid_until) unless answered || keep.positive? || grant.valid_until.nil?
        end

        # Somebody left: the first who waits is to look.
        #
        # @return [void]
        def call_first(key, deadline)
          holder, token = work(deadline) do |connection|
            next @tables.call_first(connection, key, @channel, deadline) if @calls

            @tables.first(connection, key, deadline)
          end
          holder ? @turns.call(token) : tidy(key, deadline)
        end

        # Forgets those who wait no more, so that whoever comes next need not look for them.
        #
        # @return [Boolean] does nobody have it, and nobody wait?
        def tidy(key, deadline)
          work_on(key, deadline) do |connection, head, line|
            @tables.remove(connection, line.gone.map(&:id), deadline)
            @tables.flag(connection, key, line.waiting.any?, deadline) if line.waiting.any? != (head.waiting == 1)
            line.idle?
          end
        end

        # @param claim [Tables::Claim, nil] one who waits, and for whom there is room
        # @return [void]
        def call(claim, deadline)
          tell(claim.holder, "turn", claim.token, deadline) if claim && !@turns.call(claim.token)
        end

        # Takes everything back that a token has of a key: the lease, or the place.
        #
        # @return [void]
        def settle(key, token, deadline)
          claim = work_on(key, deadline) do |connection, head, line|
            mine = (line.waiting + line.inside).select { |claim| claim.token == token }
            held = head.token == token && head.held?
            @tables.vacate(connection, key, deadline) if held
            rest = line.after(remove: mine)
            @tables.remove(connection, (mine + line.gone).map(&:id), deadline)
            @tables.flag(connection, key, rest.waiting.any?, deadline) if rest.waiting.any? != (head.waiting == 1)
            held && rest.inside.empty? ? rest.waiting.first : rest.next_inside
          end
          call(claim, deadline)
        end

        # The same by and by, and once more: what was interrupted may still be carried out. Where the database fails, soon again, and then
        # less and less often.
        #
        # @return [void]
        def settle_later(key, token, until_time)
          times = [Clock.now + AFTERMATH_S, until_time]
          pause = RETRY_S
          @keeper.errand do
            settle(key, token, Clock.now + @release_timeout)
            times.shift if times.first < until_time
          rescue UnavailableError
            again = Clock.now + pause
            pause = [2 * pause, AFTERMATH_S].min
            again if again < until_time
          end
        end

        # A lease of which losses are to be heard.
        #
        # @return [void]
        def watch(grant)
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
          @keeper.errand do
            work(Clock.now + @release_timeout) { |connection| @tables.prune(connection, Clock.now + @release_timeout) }
            nil
          rescue UnavailableError
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
          channel = (Record.channel(holder) if @calls)
          work(deadline) { |connection| @tables.tell(connection, channel, "#{word} #{token}", deadline) } if channel
        end

        def hear_of_loss(token)
          @watched[token]&.lose
        end
      end
    end
  end
end
