# frozen_string_literal: true

require "plock/store/support/acquire_request"
require "plock/store/support/aside"
require "plock/store/database"
require "plock/store/support/lines"
require "plock/store/support/per_process"
require "plock/store/support/renewal"
require "plock/store/support/scheduler"

class Locker
  # The store of the {Holding}s of one model's table. It has the queues of this process's waiters,
  # and the scheduler that renews the rows. On PostgreSQL, a release notifies the first waiter of
  # each process with NOTIFY. Other databases have no NOTIFY, and processes using the gem do not
  # call it. So the first waiter for each key also polls, with growing pauses of at most half a
  # second.
  #
  # @api private
  class Bell
    # Seconds to wait until the listener has started. If it takes longer, the waiter only polls.
    LISTEN_S = 1.0

    MOST_S = 0.5 # the longest pause between two polls, in seconds

    # The listener uses one connection to listen, and another one to check that messages arrive.
    CONNECTIONS = 2
    CONNECT_S = 2.0

    class Place < Plock::Store::Lines::Place
      # @param listener [Plock::Store::Database::Listener, nil]
      def initialize(lines, key, listener)
        super(lines, key)
        @listener = listener
      end

      def ready = @listener&.start(Plock::Clock.now + LISTEN_S)

      def callable? = @listener&.hearing?

      def await(seconds) = super([seconds, MOST_S].min)
    end

    private_constant :LISTEN_S, :MOST_S, :CONNECTIONS, :CONNECT_S, :Place

    @bells = Plock::Store::PerProcess.new { {} }

    # @return [Bell] this process's store for the model's table
    def self.of(model)
      @bells.enter { |bells| bells[[model.connection_db_config, model.table_name]] ||= new(model) }
    end

    attr_reader :connections, :channel, :tables, :scheduler

    def initialize(model)
      @lines = Plock::Store::Lines.new
      # Each renewal has its own thread, so a renewal that the database does not answer delays no
      # other renewal.
      @scheduler = Plock::Store::Scheduler.new(->(all) do
        all.each { |one| Plock::Store::Aside.start { Plock::Store::Renewal.call(self, [one]) } }
      end)
      adapter = model.connection_db_config.adapter_class::ADAPTER_NAME
      listen_to(model) if Rows::KINDS[adapter] == :postgresql # the only one that has NOTIFY
    end

    # {Plock::Store::AcquireRequest} calls the following methods.
    def ask(request, how, _deadline)
      return if how == :once && request.left.positive? && @lines.anybody?(request.key)

      asked_at = Plock::Clock.now
      sequence = request.lease.get
      Plock::Store::AcquireRequest::Answer.new(sequence, asked_at) if sequence
    end

    def line_up(request) = Place.new(@lines, request.key, @listener)

    def attempt_timeout = 0.0

    def reach = nil

    def take_back(holding, *, **) = holding.give_up

    alias take_back_later take_back

    # {Plock::Store::LeaseState} and its renewal call the following methods.
    def tend(holding)
      at = holding.due_at
      @scheduler.schedule(holding, at) if at
    end

    def forget(holding) = @scheduler.cancel(holding)

    # Does nothing, because the end of the block releases the row.
    def give_back_later(_holding, _keep) = nil

    def prolong_all(holdings, span)
      holdings.each { |holding| yield holding, holding.renew(span) }
    end

    # After a release in this process, notifies the next waiter of this process.
    def call_here(key) = hear(Rows.call(key))

    # The listener calls the following methods.
    def work(deadline, &block) = @connections.with(deadline, &block)

    def hear(call) = @lines.call_first(call)

    def hear_of_gap = @lines.call_all

    def listening? = @lines.any?

    private

    def listen_to(model)
      origin = Plock::Store::Database::ConnectionSource.new(model)
      @tables = origin.tables
      @connections = Plock::Store::Database::Connections.new(origin, CONNECTIONS, CONNECT_S)
      @channel = Rows.channel(model)
      @listener = Plock::Store::Database::Listener.new(self)
    end
  end
end
