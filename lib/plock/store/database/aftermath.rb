# frozen_string_literal: true

require_relative "../../afresh_in_child"
require_relative "../../clock"
require_relative "../support/backoff"
require_relative "../support/debts"
require_relative "../support/scheduler"

module Plock
  class Store
    class Database
      # The server may still carry out a statement whose caller was interrupted. So the store
      # removes the lease or place that the statement may have made, and looks for it again after
      # each of the PAUSES_S. One statement looks for all leases and places that are due. After
      # many interrupts at once, separate statements would have to wait for one another.
      #
      # If the server could not be reached for some time, longer pauses follow. The operating
      # system resends the data of a closed connection with pauses that double. So after an
      # outage, the statement may take as long as the outage itself to arrive.
      #
      # An Aftermath is a task of the {Scheduler}. If a removal or a look fails, the Aftermath
      # repeats it after growing pauses, until the lease would have expired.
      #
      # @api private
      class Aftermath
        include AfreshInChild

        # Seconds before each look.
        PAUSES_S = [0.1, 0.15, 0.25, 0.5, 1.0].freeze

        # A token that may still get a lease or a place.
        Doubt = Struct.new(
          :key, :token, :until_time, :since, :settled, :at, :looks, :pause, :debt
        ) do
          def done(now)
            away = now - since
            self.looks ||=
              away > 1.0 ? PAUSES_S + PAUSES_S.map { |pause| pause * away } : PAUSES_S.dup
            self.settled = true
            self.pause = nil
            Debts.pay(debt)
            first = looks.shift
            self.at = first && (now + first)
          end

          # Schedules the next attempt, in case this one fails.
          def begun(now)
            self.pause ||= Backoff.new(*Scheduler::RETRY_S, 2.0)
            self.at = now + pause.next
          end

          def over? = at.nil? || at >= until_time
        end

        private_constant :Doubt

        # @param look [Method] takes a Hash of keys by token, and returns the tokens that have a
        #   lease or a place
        # @param settle [Method] takes a key and a token, and removes the token's lease or place
        def initialize(scheduler, look, settle)
          @scheduler = scheduler
          @look = look
          @settle = settle
          @lock = Mutex.new
        end

        # @param settled [Boolean] has the removal already succeeded once?
        # @param until_time [Float] a time of {Clock}, when the lease would have expired
        def doubt(key, token, settled, until_time)
          now = Clock.now
          doubt = Doubt.new(key, token, until_time, now, settled, now)
          if settled then doubt.done(now)
          else doubt.debt = Debts.add(until_time)
          end
          enter do
            @doubts << doubt
            schedule
          end
        end

        def together? = false

        def expire = false

        def run
          now = Clock.now
          due = enter { @doubts.select { |doubt| doubt.at <= now } }
          due.each { |doubt| doubt.begun(now) }
          settled, fresh = due.partition(&:settled)
          fresh.each { |doubt| try(doubt) { settle(doubt) } }
          look(settled) if settled.any?
        ensure
          enter do
            @doubts.reject!(&:over?)
            schedule
          end
        end

        private

        def start_afresh
          @doubts = []
        end

        def schedule
          at = @doubts.filter_map(&:at).min # a doubt has no `at` after its last look
          @scheduler.schedule(self, at) if at
        end

        def look(doubts)
          found = @look.call(doubts.to_h { |doubt| [doubt.token, doubt.key] })
          doubts.each do |doubt|
            try(doubt) { settle(doubt) if found.include?(doubt.token) }
          end
        rescue Error
          nil # {Doubt#begun} has scheduled another attempt for each
        end

        def settle(doubt) = @settle.call(doubt.key, doubt.token)

        def try(doubt)
          yield
          doubt.done(Clock.now)
        rescue Error
          nil
        end
      end
    end
  end
end
