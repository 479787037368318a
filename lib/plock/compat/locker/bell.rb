# frozen_string_literal: true

require "plock/store/database"
require "plock/store/backoff"
require "plock/store/lines"
require "plock/store/per_process"

class Locker
  # Those of this process who wait for rows of one model's table, in order: the first of each key asks, others when they are the first. On
  # PostgreSQL they are called when a row is released, by NOTIFY; for older processes call nobody, and elsewhere nobody can be called,
  # they look again at growing intervals, twice a second at least.
  #
  # @api private
  class Bell
    # Seconds between two looks of the first in line: the first time, and at most.
    FIRST_S = 0.004
    MOST_S = 0.5

    # How long it may take until one can be called, before one waits without.
    LISTEN_S = 1.0

    # Connections that listen, and that try whether that goes right.
    CONNECTIONS = 2
    CONNECT_S = 2.0

    # The adapters to databases that can call somebody.
    CALLING = %w[PostgreSQL PostGIS].freeze

    private_constant :FIRST_S, :MOST_S, :LISTEN_S, :CONNECTIONS, :CONNECT_S, :CALLING

    @bells = Plock::Store::PerProcess.new { {} }

    # @param model [Class] an Active Record model
    # @return [Bell] of this process
    def self.of(model)
      @bells.enter { |bells| bells[[model.connection_db_config, model.table_name]] ||= new(model) }
    end

    # @api private
    attr_reader :connections, :channel, :tables

    def initialize(model)
      @lines = Plock::Store::Lines.new
      @lock = Mutex.new
      @count = 0
      listen_to(model) if CALLING.include?(model.connection_db_config.adapter_class::ADAPTER_NAME)
    end

    # Waits until the block, which asks for the row, has got it.
    #
    # @return [void]
    def waiting(key)
      call = Rows.call(key)
      return if !@lines.anybody?(call) && yield

      waiter = nil
      Thread.handle_interrupt(Object => :never) do # who is forgotten in the line lets nobody after him ask
        waiter = @lines.join(call, [])
        count(1)
      end
      @listener&.start(Plock::Clock.now + LISTEN_S)
      wait_for_turn(call, waiter) { yield }
    ensure
      if waiter
        @lines.leave(call, waiter)
        count(-1)
      end
    end

    # Somebody of this process has released it.
    #
    # @return [void]
    def call_here(key)
      @lines.call_first(Rows.call(key))
    end

    # What the listener asks of a site, and tells it.
    #
    # @api private
    def work(deadline, &block) = @connections.with(deadline, &block)

    # @api private
    def hear(call) = @lines.call_first(call)

    # @api private
    def hear_of_gap = @lines.call_all

    # @api private
    def listening? = @count.positive?

    private

    def listen_to(model)
      origin = Plock::Store::Database::Origin.new(model)
      @tables = origin.tables
      @connections = Plock::Store::Database::Connections.new(origin, CONNECTIONS, CONNECT_S)
      @channel = Rows.channel(model)
      @listener = Plock::Store::Database::Listener.new(self)
    end

    def count(change)
      Thread.handle_interrupt(Object => :never) { @lock.synchronize { @count += change } }
    end

    def wait_for_turn(call, waiter)
      pause = Plock::Store::Backoff.new(FIRST_S, MOST_S)
      loop do
        next waiter.turn.await(MOST_S) unless @lines.first?(call, waiter)
        return if yield

        called = waiter.turn.await(@listener&.hearing? ? MOST_S : pause.next)
        pause.reset if called
      end
    end
  end
end
