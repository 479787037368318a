# frozen_string_literal: true

require_relative "../../default_store"
require_relative "../../locking"
require_relative "../../semaphore"

module Plock
  module Guard
    # The options of {Definition#guard_with}, checked when the class is loaded.
    #
    # @api private
    class Options
      # The options, with the values that they have if they are left out. Times are in seconds.
      DEFAULTS = {
        key: nil, during: :running, ttl: 15.0, wait: 0, on_conflict: :reschedule,
        max_conflicts: nil, at_least: 0, limit: 1, on_lost: :log, on_unavailable: :raise,
        queued_ttl: 86_400.0, store: nil
      }.freeze

      DURING = %i[running queued queued_and_running].freeze
      ON_CONFLICT = %i[reschedule retry discard].freeze
      ON_LOST = %i[log raise].freeze
      ON_UNAVAILABLE = %i[raise proceed].freeze

      QUEUED_TTL_MIN = 1.0 # seconds

      # Options that have no effect on a job that is guarded only in its queue.
      OF_RUNNING = %i[ttl wait on_lost].freeze
      private_constant :DURING, :ON_CONFLICT, :ON_LOST, :ON_UNAVAILABLE, :QUEUED_TTL_MIN,
                       :OF_RUNNING

      @opened = {}
      @opening = BriefMutex.new

      class << self
        # Guards that name the same URL share one store.
        def at(url)
          @opening.hold { @opened[url] ||= Plock.configuration.open_at(url) }
        end

        # Forgets the stores, for the end of a test.
        def reset
          @opening.synchronize { @opened = {} }
        end
      end

      attr_reader :key, :on_conflict, :max_conflicts, :limit, :on_lost
      # @return [Float] seconds
      attr_reader :ttl, :wait, :at_least, :queued_ttl

      def initialize(**given)
        check_names(given)
        options = DEFAULTS.merge(given)
        @key = check_key(options[:key])
        @during = one_of(DURING, :during, options)
        @on_conflict = one_of(ON_CONFLICT, :on_conflict, options, "a callable")
        @on_lost = one_of(ON_LOST, :on_lost, options, "a callable")
        @on_unavailable = one_of(ON_UNAVAILABLE, :on_unavailable, options)
        check_spans(options)
        @limit = integer(Semaphore::PERMITS, :limit, options, "leave it out for one at a time")
        @max_conflicts = check_max_conflicts(options)
        check_sense(given)
        @source = check_source(options[:store])
        @lock = BriefMutex.new
      rescue ArgumentError => e
        raise ArgumentError, "guard_with: #{e.message}"
      end

      # The store of the keys. A URL is opened, and a callable is called, when the first key is
      # needed.
      #
      # @return [Locking, Plock] the module Plock stands for the default store
      # @raise [ConfigurationError] the store cannot be opened
      def store
        case @source
        when nil then Plock
        when Locking then @source
        when String then Options.at(@source)
        else @called || @lock.hold { @called ||= call_source }
        end
      end

      # @return [String] without the store, whose URL may have a password
      def inspect = "#<#{self.class}>"

      # @return [Boolean] does a job hold its key while it runs?
      def runs? = @during != :queued

      # @return [Boolean] does a job hold its key while it is queued?
      def queued? = @during != :running

      # @return [Boolean] may a job continue without its key if the store is unavailable?
      def proceed? = @on_unavailable == :proceed

      private

      def check_names(options)
        unknown = options.keys - DEFAULTS.keys
        return if unknown.empty?

        refuse("there is no option #{unknown.first.inspect}: write one of " \
               "#{DEFAULTS.keys.map { |name| "#{name}:" }.join(", ")}")
      end

      def check_key(key)
        return if key.nil?
        return key if key.respond_to?(:call)
        return Locking::Arguments.key(key).dup.freeze if key.is_a?(String)

        refuse("key: must be a callable or a String (got #{key.inspect}): write key: ->(id) { " \
               "\"import:\#{id}\" } with the arguments of perform, or leave it out for class " \
               "and arguments")
      end

      def one_of(values, name, options, besides = nil)
        value = options[name]
        return value if values.include?(value) || (besides && value.respond_to?(:call))

        choice = [*values.map(&:inspect), besides].compact.join(", ")
        refuse("#{name}: must be one of #{choice} (got #{value.inspect}): write #{name}: " \
               "#{values.first.inspect}, for example")
      end

      def check_spans(options)
        @ttl = Locking::Arguments.ttl(options[:ttl])
        @wait = Locking::Arguments.span("wait:", options[:wait])
        @at_least = Locking::Arguments.span("at_least:", options[:at_least])
        @queued_ttl = Locking::Arguments.ttl(options[:queued_ttl], "queued_ttl:")
        refuse("queued_ttl: must be #{QUEUED_TTL_MIN} seconds or more: write how long a job " \
               "may be queued") if @queued_ttl < QUEUED_TTL_MIN
      end

      def integer(range, name, options, otherwise)
        value = options[name]
        return value if value.is_a?(Integer) && range.cover?(value)

        refuse("#{name}: must be an Integer from #{range.first} to #{range.last} (got " \
               "#{value.inspect}): #{otherwise}")
      end

      def check_max_conflicts(options)
        return if options[:max_conflicts].nil?

        integer(
          1..1_000_000, :max_conflicts, options,
          "leave it out for no limit, or write on_conflict: :retry to raise at once"
        )
      end

      # Refuses an option that would have no effect: the caller must have misunderstood it.
      def check_sense(options)
        if !runs? && (name = OF_RUNNING.find { |option| options.key?(option) })
          refuse("#{name}: is of no use with during: :queued, which holds nothing while the " \
                 "job runs: leave it out, or write during: :queued_and_running")
        end
        if !queued? && options.key?(:queued_ttl)
          refuse("queued_ttl: is of no use with during: :running: leave it out, or write " \
                 "during: :queued_and_running")
        end
        return unless max_conflicts && %i[retry discard].include?(on_conflict)

        refuse("max_conflicts: is of no use with on_conflict: #{on_conflict.inspect}, which " \
               "does not reschedule: leave it out")
      end

      def check_source(source)
        return source if source.nil? || Locking === source || source.respond_to?(:call)
        return source.dup.freeze if source.is_a?(String) && !source.empty?

        refuse("store: must be a store, a URL, or a callable that returns a store (got " \
               "#{source.inspect}): leave it out for the default store")
      end

      def call_source
        store = @source.call
        return store if Locking === store

        raise ConfigurationError,
              "the callable store: of a guard must return an opened store (got #{store.class})"
      end

      def refuse(message)
        raise ArgumentError, message
      end
    end
  end
end
