# frozen_string_literal: true

require_relative "clock"
require_relative "locking/store_config"
require_relative "survey/key"
require_relative "survey/snapshot"

module Plock
  # Examines all keys of a store, in steps. Each request of a viewer runs one step, and nothing
  # runs between requests. After each survey comes a pause, which is many times as long as the work
  # of that survey. So viewers cost the store and this process little, however many locks and
  # viewers there are.
  #
  # A survey writes nothing to the store. So it skips the comparison of secrets, which may write a
  # fingerprint.
  #
  # @api private
  class Survey
    STEP_S = 0.1      # seconds that one request of a viewer spends on the survey
    SLICE = 256       # keys that are examined together
    REST_S = 3.0      # seconds of the shortest pause
    # A pause is at least this many times as long as the work of the survey before it. So surveys
    # take about 3 % of the time at most.
    REST_RATIO = 30
    MOST_KEYS = 50_000
    THREADS = 4       # requests to a server at the same time
    FEW = 4           # the fewest keys for which threads are used
    LIST_S = 30.0     # seconds after which a survey lists no more keys
    private_constant :SLICE, :REST_S, :REST_RATIO, :MOST_KEYS, :THREADS, :FEW, :LIST_S

    # A key that the store cannot read. Another program may have written a value of a different
    # type.
    Unreadable = Struct.new(:store_key, :error) do
      def message = "#{store_key}: #{error.message}"
    end

    def self.occupied?(status) = status.held? || status.waiters.any?

    # @return [String] a digest that changes with the holders, even in a store without fences
    def self.holders_digest(status) = Plock.digest(status.holders.map(&:who).to_s)

    # Breaks a lock if its holders are still those that the user saw before the confirmation.
    #
    # @param seen [String] the digest of those holders
    # @param name [String, nil] as callers name the key
    # @return [Array(Symbol, Status)] `:broken`, and the status before the break; `:changed` or
    #   `:free`, and the status now
    # @raise [Error] the request to the store failed
    def self.break_seen(store, store_key, seen, name = nil)
      status = store.look_at(name, store_key)
      if status.held? && holders_digest(status) == seen
        return [:broken, status] if store.break(status)

        status = store.look_at(name, store_key)
      end
      [status.held? ? :changed : :free, status]
    end

    # @return [Boolean] are the keys of all namespaces surveyed?
    def all_namespaces? = @all_namespaces

    # @yieldparam snapshot [Snapshot] each complete snapshot
    def initialize(store, all_namespaces: false, &finished)
      @store = store
      @all_namespaces = all_namespaces
      @finished = finished
      @mutex = Mutex.new
      begin_again
    end

    # @param budget [Float] seconds
    # @return [Snapshot] the last complete snapshot; until there is one, the keys examined so far
    # @raise [UnsupportedError] the store cannot list its keys
    # @raise [Error] the request to the store failed
    def snapshot(budget = STEP_S)
      free = !@mutex.owned?
      advance(Clock.now + budget) if @mutex.try_lock && due?
      @complete || @partial || Snapshot.new([], at: Time.now, complete: false)
    ensure
      # a signal handler may have raised just after the mutex was locked
      Interrupts.complete { @mutex.unlock if free && @mutex.owned? }
    end

    # @return [Boolean] is this key part of the survey?
    def shows?(store_key)
      return !Key.parse(store_key).nil? if @all_namespaces

      @store.config.own?(store_key)
    end

    # @param name [String, nil] as callers name the key
    # @raise [Error] the request to the store failed
    def examine(store_key, name = nil) = @store.look_at(name, store_key)

    # Examines several keys. If the store has a server, several requests run at the same time.
    #
    # @param budget [Float, nil] seconds after which no further key is examined
    # @param names [Hash{String => String}] the names of store keys, as far as they are known
    # @return [Array<Status, Unreadable>] the results for the first keys: as many as the budget
    #   allowed, but at least one
    # @raise [Error] the request to the store failed
    def examine_all(store_keys, budget = nil, names = {})
      ends = budget && (Clock.now + budget)
      found = Array.new(store_keys.size)
      waiting = Queue.new
      store_keys.each_with_index { |store_key, place| waiting << [store_key, place] }
      waiting.close
      threads = store_keys.size < FEW || !@store.is_a?(Store) ? 1 : THREADS
      together(threads) do
        while (store_key, place = waiting.pop)
          found[place] = readable(store_key, names[store_key])
          break if ends && Clock.now >= ends
        end
      end
      found.compact
    end

    # Examines the keys of these statuses again, for about STEP_S at most. If the store is slow, the
    # remaining statuses are returned unchanged.
    #
    # @return [Array<Status>] without the statuses of keys that are now free
    # @raise [Error] the request to the store failed
    def refresh(statuses)
      names = statuses.to_h { |status| [status.store_key, status.key] }
      newer = examine_all(names.keys, STEP_S, names)
      statuses.zip(newer).filter_map do |old, now|
        next old unless now.is_a?(Status)

        now if Survey.occupied?(now)
      end
    end

    # @param typed [String] the name of a key, perhaps with blanks around it; an empty name finds
    #   nothing
    # @return [Array<Status>] of the key with this name, one for each kind of lock that is held or
    #   waited for
    # @raise [Error] the request to the store failed
    def named(typed)
      names = [typed, typed.strip].uniq.flat_map do |name|
        store_keys_of(name).map { |store_key| [store_key, name] }
      end.to_h
      examine_all(names.keys, nil, names)
        .grep(Status).select { |status| Survey.occupied?(status) }
    end

    # @param name [String, nil]
    # @return [Boolean] does the key have this name?
    def named?(store_key, name) = !name.nil? && store_keys_of(name).include?(store_key)

    private

    def store_keys_of(name)
      Locking::Kind::ALL.map { |kind| @store.config.store_key(name, kind) }
    rescue ArgumentError
      [] # the name is too long for a key, or empty
    end

    def together(threads, &work)
      return work.call if threads == 1

      others = Array.new(threads) do
        Thread.new do
          Thread.current.report_on_exception = false # #value raises it
          work.call
        end
      end
      others.each(&:value)
    end

    def readable(store_key, name)
      examine(store_key, name)
    rescue Error => e
      raise unless e.answered?

      Unreadable.new(store_key, e)
    end

    def due?
      return true if @complete.nil? || @started

      Clock.now - @ended_at >= [REST_S, @cost * REST_RATIO].max
    end

    def begin_again
      @cursor = @started = nil
      @listed = false
      @keys = {}
      @statuses = []
      @unreadable = []
      @examined = 0
      @cost = @listing = 0.0
    end

    def advance(deadline)
      began = Clock.now
      begin_again unless @started
      @started = true
      more = step(deadline) until more == :none || Clock.now >= deadline
      @cost += Clock.now - began
      more == :none ? finish : note_progress
    rescue Error
      @started = nil # the next request begins the survey again
      raise
    end

    # @return [Symbol, nil] `:none`: there was nothing left to do
    def step(deadline)
      return list unless @listed

      some = @names[@examined, SLICE]
      return :none if some.empty?

      found = examine_all(some, deadline - Clock.now)
      @examined += found.size
      unreadable, statuses = found.partition { |one| one.is_a?(Unreadable) }
      @unreadable.concat(unreadable)
      @statuses.concat(statuses.select { |status| Survey.occupied?(status) })
      nil
    end

    def list
      prefix = @all_namespaces ? Locking::StoreConfig::PREFIX : @store.config.prefix
      asked = Clock.now
      keys, @cursor = @store.list_keys(@cursor, prefix: prefix)
      keys.each { |key| @keys[key] = true if shows?(key) }
      @listing += Clock.now - asked
      return if @cursor && @keys.size < MOST_KEYS && @listing < LIST_S

      @listed = true
      @names = @keys.keys.first(MOST_KEYS)
      nil
    end

    def finish
      @complete =
        Snapshot.new(@statuses, at: Time.now, cut: !@cursor.nil?, unreadable: @unreadable)
      @started = @partial = nil
      @ended_at = Clock.now
      @finished&.call(@complete)
    end

    def note_progress
      return if @complete

      rest = @keys.size - @examined
      @partial = Snapshot.new(
        @statuses.dup, at: Time.now, rest: rest, complete: false, unreadable: @unreadable.dup
      )
    end
  end
end
