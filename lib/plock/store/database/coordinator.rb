# frozen_string_literal: true

require "securerandom"
require_relative "../../afresh_in_child"
require_relative "../support/backoff"
require_relative "../support/lines"
require_relative "../../record"
require_relative "aftermath"
require_relative "connections"
require_relative "listener"

module Plock
  class Store
    class Database
      # The state of one database store in this process: its connections, waiters and watched
      # leases. To call a waiter is to tell it that its turn may have come.
      #
      # @api private
      class Coordinator
        include AfreshInChild

        MICROSECONDS = 1_000_000.0

        # Seconds between two attempts of a statement that collided with another transaction: the
        # first and the longest pause. During a pause, the connection is back in the pool.
        COLLISION_S = [0.002, 0.1].freeze

        # Seconds between two deletions of old rows: PRUNE_ON_S while more old rows are left, else
        # PRUNE_S.
        PRUNE_S = 600.0
        PRUNE_ON_S = 0.05

        attr_reader :connections, :tables, :aftermath

        # @return [Lines] the waiters of this process. The database has their queue, so in these
        #   Lines each waiter has a queue of its own, under its token instead of a key
        attr_reader :turns

        # @return [String, nil] the channel on which this process receives calls from other
        #   processes; nil: the database has no channels
        attr_reader :channel

        def initialize(origin, scheduler, reach, pool_size:, release_timeout:, connect_timeout:)
          @connections = Connections.new(origin, pool_size, connect_timeout)
          @tables = origin.tables
          @release_timeout = release_timeout
          @reach = reach
          @calls = @tables.respond_to?(:tell)
          @scheduler = scheduler
          @aftermath = Aftermath.new(scheduler, method(:look_for), method(:settle))
          @turns = Lines.new
          @prune_at = Clock.now + rand(PRUNE_S)
          @lock = Mutex.new
          here
        end

        # By when a release that begins now must be answered.
        def release_deadline = Clock.now + release_timeout

        def release_timeout = Background.at_most(@release_timeout)

        def micros(seconds) = (seconds * MICROSECONDS).round

        # The holder record, as the tables store it.
        def record(label, token)
          here
          Record.write(@channel && [@channel, *@listener.server_process].join("@"), label, token)
        end

        # Repeats the block if it collides with another transaction.
        def work(deadline, reserve = 0, &block)
          @reach.noting { @connections.with(deadline, reserve, &block) }
        rescue Connection::Again
          @reach.answered
          raise unless Clock.now < deadline

          sleep((pause ||= Backoff.new(*COLLISION_S)).next)
          retry
        end

        def ask(what, *arguments, by:, reserve: 0)
          work(by, reserve) { |connection| @tables.public_send(what, connection, *arguments, by) }
        end

        # Renews exclusive leases in one statement.
        #
        # @return [Hash{String => true}, nil] the tokens of the renewed leases; nil: it failed
        def prolong_all(leases, span)
          names = leases.to_h { |lease| [lease.token, lease.key] }
          deadline = Clock.now + [release_timeout, span / LeaseState::RENEWALS_PER_TTL].min
          ask(:prolong_all, names, micros(span), by: deadline, reserve: Pool::RENEWAL)
            .to_h { |token| [token, true] }
        rescue UnavailableError
          nil
        end

        # Releases a lease, and calls the key's first waiter. This takes one statement if the
        # database can do both in one.
        #
        # @return [Boolean] was the lease still held?
        def release(lease, keep, deadline)
          waiting, called = ask(*releasing(lease, keep), by: deadline, reserve: Pool::RELEASE)
          if called then @turns.call_first(called)
          elsif waiting && keep.zero? then call_first(lease.key, deadline)
          end
          prune_by_and_by
          !waiting.nil?
        end

        # Calls the key's first waiter, after a holder or waiter of the key has left.
        def call_first(key, deadline)
          holder, token = ask(:call_first, key, @channel, by: deadline, reserve: Pool::RELEASE)
          holder ? @turns.call_first(token) : ask(:tidy, key, by: deadline, reserve: Pool::RELEASE)
        end

        # Calls the waiter that has this token, if it is not nil.
        def call(holder, token, deadline)
          tell(holder, "turn", token, deadline) if token && !@turns.call_first(token)
        end

        def settle(key, token, deadline = release_deadline)
          holder, next_token = ask(:settle, key, token, by: deadline, reserve: Pool::RELEASE)
          call(holder, next_token, deadline)
        end

        # Makes this process notify the lease's holder if the lease is broken.
        def watch(lease)
          return if hearing? && @watched[lease.token].equal?(lease)

          here
          @watched[lease.token] = lease
          listen(Clock.now)
        end

        def unwatch(lease) = @watched.delete(lease.token)

        # @param owners [Array<Array(String, String)>] their holder records and tokens
        def tell_of_loss(owners, deadline)
          here
          owners.each do |holder, token|
            if (lease = @watched[token]) then lease.lose
            elsif holder then tell(holder, "lost", token, deadline)
            end
          end
        end

        def hear(message)
          word, token = message.split(" ", 2)
          case word
          when "turn" then @turns.call_first(token)
          when "lost" then @watched[token]&.lose
          end
        end

        # Messages may have been missed, so this wakes all waiters of this process, and checks the
        # watched leases.
        def hear_of_gap
          @turns.call_all
          @watched.values.each(&:ask_soon)
        end

        def listening? = @turns.any? || @watched.any?

        def listen(deadline)
          return false unless @calls

          here
          @listener.start(deadline)
        end

        def hearing? = @calls && @pid == Process.pid && @listener.hearing?

        def prune_by_and_by
          return if Clock.now < @prune_at

          @prune_at = Clock.now + PRUNE_S
          @scheduler.retry_until(@prune_at) do
            Clock.now + PRUNE_ON_S if ask(:prune, by: release_deadline)
          end
        end

        def close
          @listener&.stop
          @connections.close
        end

        private

        # For {Aftermath}.
        def look_for(names)
          names.each_slice(Tables::LISTED_AT_ONCE).flat_map do |some|
            ask(:present, some.to_h, by: release_deadline, reserve: Pool::RELEASE)
          end
        end

        # A forked child has a channel of its own, and watches none of the parent's leases.
        def here = enter { nil }

        def start_afresh
          @watched = {}
          return unless @calls

          @channel = "plock_#{SecureRandom.hex(8)}"
          @listener = Listener.new(self)
        end

        def releasing(lease, keep)
          return [:release_shared, lease.key, lease.token, micros(keep)] if lease.share
          return [:release_and_call, lease.key, lease.token, @channel] if @calls && keep.zero?

          [:release, lease.key, lease.token, micros(keep)]
        end

        def tell(holder, word, token, deadline)
          channel = (Record.channel(holder)&.split("@")&.first if @calls)
          ask(:tell, channel, "#{word} #{token}", by: deadline, reserve: Pool::RELEASE) if channel
        end
      end
    end
  end
end
