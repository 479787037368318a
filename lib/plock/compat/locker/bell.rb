# frozen_string_literal: true

require "plock/store/support/acquire_request"
require "plock/store/support/aside"
require "plock/store/database"
require "plock/store/support/lines"
require "plock/store/support/per_process"
require "plock/store/support/renewal"
require "plock/store/support/scheduler"

class Locker
  # What the {Holding}s of one model's table have in common, as a store has it for its leases: those
  # of this process who wait, in order, and the scheduler that renews. On PostgreSQL who waits is
  # called when a row is released, by NOTIFY; for older processes call nobody, and elsewhere nobody
  # can be called, the first one of each key looks again at growing intervals, twice a second at
  # least.
  #
  # @api private
  class Bell
    # How long it may take until one can be called, before one waits without.
    LISTEN_S = 1.0

    # Seconds between two looks of one who is called, for an older process calls nobody.
    MOST_S = 0.5

    # Connections that listen, and that try whether that goes right.
    CONNECTIONS = 2
    CONNECT_S = 2.0

    # The adapters to databases that can call somebody.
    CALLING = %w[PostgreSQL PostGIS].freeze

    # What a request waits on.
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

    private_constant :LISTEN_S, :MOST_S, :CONNECTIONS, :CONNECT_S, :CALLING, :Place

    @bells = Plock::Store::PerProcess.new { {} }

    # @return [Bell] of this process
    def self.of(model)
      @bells.enter { |bells| bells[[model.connection_db_config, model.table_name]] ||= new(model) }
    end

    attr_reader :connections, :channel, :tables, :scheduler

    def initialize(model)
      @lines = Plock::Store::Lines.new
      # A database that says nothing to one renewal keeps nobody else waiting.
      @scheduler =
        Plock::Store::Scheduler.new(
          ->(all) do
            all.each { |one| Plock::Store::Aside.start { Plock::Store::Renewal.call(self, [one]) } }
          end
        )
      listen_to(model) if CALLING.include?(model.connection_db_config.adapter_class::ADAPTER_NAME)
    end

    # What an {Plock::Store::AcquireRequest} asks of a store.
    def ask(request, how, _deadline)
      return if how == :once && request.left.positive? && @lines.anybody?(request.key)

      asked_at = Plock::Clock.now
      sequence = request.grant.get
      Plock::Store::AcquireRequest::Answer.new(sequence, asked_at) if sequence
    end

    def line_up(request) = Place.new(@lines, request.key, @listener)

    def attempt_timeout = 0.0

    def reach = nil

    def take_back(holding, *, **) = holding.give_up

    alias take_back_later take_back

    # What a {Plock::Store::LeaseState} and its renewal ask of a store.
    def tend(holding)
      at = holding.due_at
      @scheduler.schedule(holding, at) if at
    end

    def forget(holding) = @scheduler.cancel(holding)

    # The end of its block gives it back.
    def give_back_later(_holding, _keep) = nil

    def prolong_all(holdings, span) = holdings.to_h { |holding| [holding, holding.renew(span)] }

    # Somebody of this process has released it.
    def call_here(key) = hear(Rows.call(key))

    # What the listener asks of a site, and tells it.
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
