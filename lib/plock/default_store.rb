# frozen_string_literal: true

require_relative "background"
require_relative "brief_mutex"
require_relative "clock"
require_relative "configuration"
require_relative "events"

module Plock
  # The default store, and the methods of {Locking} as methods of the module Plock. The default
  # store belongs to the main Ractor. Other Ractors must open their own stores.
  module DefaultStore
    # Configures the default store. It may be called more than once, but only before the first
    # lock.
    #
    # @yieldparam configuration [Configuration]
    # @return [nil]
    # @raise [ConfigurationError] the default store is in use already
    #
    # @example
    #   Plock.configure { |c| c.url = "redis://localhost:6379/1" }
    def configure
      CHANGES.hold do
        @configuring = Thread.current
        if configuration.frozen? || @handling&.alive?
          raise ConfigurationError,
                "the default store is in use: call Plock.configure before the first lock"
        end

        before = configuration.log
        yield configuration
        log = configuration.log
        Logs.configure(log) unless log.equal?(before)
      ensure
        @configuring = nil
      end
      nil
    end

    # @return [Locking] the default store, opened at the first call
    # @raise [ConfigurationError] the store is configured wrongly, or not at all in production
    def store
      @store || open_default
    end

    # @api private
    # @return [Locking, nil] the default store, if it is in use
    def open_store = @store

    # Forgets the configuration, the default store and the subscriptions, for the end of a test. It
    # does not close the store, because other code may use it.
    #
    # @return [nil]
    def reset!
      CHANGES.hold { @store = @configuration = @failure = nil }
      Configuration.reset
      Events.clear
      Logs.configure(nil) if ENV[Configuration::LOG_VARIABLE] || !Plock.autoload?(:Logs)
      Guard::Options.reset unless Plock.autoload?(:Guard) # if it is loaded
      nil
    end

    # @return [#warn, nil] the logger of the configuration
    def logger = @configuration&.logger

    # @api private
    # @return [Hash{Symbol => Object}, nil] `log` of the configuration. Creates no configuration if
    #   there is none, so that any thread can call this method while {configure} runs
    def log_settings = @configuration&.log

    # @api private
    # @return [Configuration] the configuration of the default store, which need not be open
    def configuration
      return @configuration if @configuration

      fresh = Configuration.new
      @configuration ||= fresh # a signal handler, or another thread, may have made one meanwhile
    end

    # Calls the block for the events of leases in this process. The block runs on the thread that
    # causes the event. If a native thread causes the event, the block runs on one of plock's Ruby
    # threads. The block must be quick. If it raises, the exception is logged.
    #
    # If ActiveSupport::Notifications is loaded when a store is opened, it receives the events as
    # well: `acquire.plock`, `lost.plock` …
    #
    # @param pattern [Symbol, String, #===, nil] which events, by name: `:acquire`, `:contended`,
    #   `:timeout`, `:release`, `:lost`, `:renew`, and those of guarded jobs (see {Events::Event});
    #   nil: all
    # @yieldparam event [Events::Event]
    # @return [Events::Subscription] for {unsubscribe}
    # @raise [ArgumentError] there is no block
    #
    # @example
    #   Plock.subscribe(/timeout|lost/) { |event| StatsD.increment("plock.#{event.name}") }
    def subscribe(pattern = nil, &listener)
      raise ArgumentError, "subscribe needs a block" unless listener

      Events.add(Events::Subscription.new(pattern, listener))
    end

    # @param subscription [Object] from {subscribe}
    # @return [Boolean] was it subscribed?
    def unsubscribe(subscription) = Events.remove(subscription)

    # @see Locking#acquire
    # @return [Object, Lease]
    def acquire(
      key, ttl: Locking::USUAL, wait: Locking::USUAL, renew: nil, max_hold: nil, at_least: 0,
      on_lost: nil, label: nil, release: nil, replicas: nil, &block
    )
      (@store || store).acquire(
        key, ttl: ttl, wait: wait, renew: renew, max_hold: max_hold, at_least: at_least,
        on_lost: on_lost, label: label, release: release, replicas: replicas, &block
      )
    end

    # @see Locking#try_acquire
    # @return [Object, Lease, nil]
    def try_acquire(
      key, ttl: Locking::USUAL, wait: 0, renew: nil, max_hold: nil, at_least: 0, on_lost: nil,
      label: nil, release: nil, replicas: nil, &block
    )
      (@store || store).try_acquire(
        key, ttl: ttl, wait: wait, renew: renew, max_hold: max_hold, at_least: at_least,
        on_lost: on_lost, label: label, release: release, replicas: replicas, &block
      )
    end

    # @see Locking#acquire_all
    # @return [Object, Array<Lease>]
    def acquire_all(keys, **options, &block) = store.acquire_all(keys, **options, &block)

    # @see Locking#try_acquire_all
    # @return [Object, Array<Lease>, nil]
    def try_acquire_all(keys, **options, &block) = store.try_acquire_all(keys, **options, &block)

    # @see Locking#semaphore
    # @return [Semaphore]
    def semaphore(key, permits:) = store.semaphore(key, permits: permits)

    # @see Locking#read_write_lock
    # @return [ReadWriteLock]
    def read_write_lock(key) = store.read_write_lock(key)

    # @see Locking#once
    # @return [Once]
    def once(key, **options, &block) = store.once(key, **options, &block)

    # @see Locking#adopt
    # @return [Object, Lease]
    def adopt(dump, **options, &block) = store.adopt(dump, **options, &block)

    # @see Locking#status
    # @return [Status]
    def status(key) = store.status(key)

    # @see Locking#can?
    # @return [Boolean]
    def can?(ability) = store.can?(ability)

    # @see Locking#pool_status
    # @return [PoolStatus, nil]
    def pool_status = store.pool_status

    # @see Locking#each_lock
    # @return [nil, Enumerator]
    def each_lock(&block) = store.each_lock(&block)

    # @see Locking#break
    # @return [Boolean]
    def break(key) = store.break(key)

    # @api private
    # Replaces the default store. nil makes the configured store the default store again.
    #
    # @return [Store, nil] the previous default store
    def replace_store(store)
      CHANGES.hold { [@store, @store = store].first }
    end

    CHANGES = BriefMutex.new
    IN_HANDLER = "a signal handler cannot open the default store while Plock.configure runs, or " \
                 "while it already does so: call Plock.store before signals can come"
    STUCK = "a signal handler could not open the default store, because the code that it has " \
            "interrupted may hold a mutex: call Plock.store before signals can come"
    TRAP_CONTEXT = "trap context" # part of Ruby's message if it refuses a mutex in a signal handler
    HANDLER_S = 2.0 # seconds
    private_constant :CHANGES, :IN_HANDLER, :STUCK, :TRAP_CONTEXT, :HANDLER_S

    private

    # Opens the default store on the caller's thread, because code of the application, such as a
    # logger, may run meanwhile and depend on that thread.
    def open_default
      return open_in_handler if Background.signal_handler?

      began_at = Clock.now
      CHANGES.hold { @store || open_once(began_at) }
    end

    # A signal handler must not wait for another opening. It may have interrupted the thread that
    # opens the store, or code that this thread waits for. So the handler opens a store itself.
    def open_in_handler
      raise ThreadError, IN_HANDLER if [@configuring, @handling].include?(Thread.current)

      begin
        @handling = Thread.current # from here on, `configure` refuses to begin
        # in a forked child, the threads of the parent are not alive
        @configuring&.alive? ? outside_handler { store } : open_configured
      rescue ThreadError => e
        raise unless e.message.include?(TRAP_CONTEXT)

        # Opening may load a file, or call code that locks a mutex. Ruby refuses both here.
        outside_handler { open_configured }
      ensure
        @handling = nil
      end
    end

    # Runs the block on another thread. The interrupted code may have a mutex that the block needs,
    # so the handler does not wait for long.
    def outside_handler(&block)
      thread = Background.launch(&block) or raise ThreadError, STUCK
      raise ThreadError, STUCK unless thread.join(HANDLER_S)

      thread.value
    end

    # An attempt may take a second to fail. So if a caller has waited for another thread's attempt,
    # and that attempt failed, the caller fails with the same error. Otherwise the waiting callers
    # would try one after the other.
    def open_once(began_at)
      error, failed_at = @failure
      return attempt unless error && failed_at > began_at

      copy = error.clone
      copy.set_backtrace(caller)
      raise copy
    end

    def attempt
      open_configured
    rescue StandardError => e
      @failure = [e, Clock.now]
      raise
    end

    # While this method opens a store, a signal handler may open another one. Only the first one
    # becomes the default store. The other one is not used, and so has no connection.
    def open_configured
      settings = configuration
      opened = settings.open
      settings.freeze
      @store ||= opened
    end
  end
end
