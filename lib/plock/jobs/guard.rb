# frozen_string_literal: true

require_relative ".."
require_relative "guard/errors"
require_relative "guard/options"

module Plock
  # Guards jobs that must not run twice at once. Loaded by `require "plock/sidekiq"` and `require
  # "plock/active_job"`.
  #
  # @example Sidekiq
  #   require "plock/sidekiq"
  #
  #   class Import
  #     include Sidekiq::Job
  #     include Plock::Guard
  #     guard_with key: ->(account, *) { "import:#{account}" }, on_conflict: :reschedule
  #
  #     def perform(account, file) = …
  #   end
  module Guard
    @fronts = []

    class << self
      # @api private
      # @return [Array<#jobs?, #guard>] the loaded job frameworks
      attr_reader :fronts

      # @api private
      def included(job_class)
        super
        job_class.extend(Definition)
      end
    end

    # The methods that `include Plock::Guard` adds to a job class.
    module Definition
      # Guards the jobs of this class, and of each subclass without a guard of its own.
      #
      # With `during: :running`, a job holds its key while it runs. With `:queued`, it holds the
      # key from the push until it starts, so that a second job is not queued. With
      # `:queued_and_running`, it holds the key from the push until it is done, through all
      # retries. The lease is renewed while the job runs.
      #
      # @param options [Hash{Symbol => Object}]
      # @option options [#call, String, nil] :key a callable that receives the job's arguments and
      #   returns the key, a String or Symbol of 1 to 1024 bytes. A String instead of a callable
      #   is the key of all jobs of the class. By default, the key is made from the class and the
      #   arguments.
      # @option options [:running, :queued, :queued_and_running] :during (:running) when a job
      #   holds its key
      # @option options [Numeric] :ttl (15) seconds, 0.005 to 31_622_400, after which the key of a
      #   killed worker is free
      # @option options [Numeric] :wait (0) seconds, up to 31_622_400, that a worker waits for the
      #   key. If the key is still held after that, the job has a conflict.
      # @option options [:reschedule, :retry, :discard, #call] :on_conflict (:reschedule) the
      #   action on a job whose key is held: `:reschedule` runs it again later, after 1 s at first
      #   and 60 s at most; `:retry` raises {Conflict}; `:discard` drops and logs it. A callable
      #   receives the {Conflict}. It returns one of these three symbols, or any other value if it
      #   has handled the job itself.
      # @option options [Integer, nil] :max_conflicts the maximum number of times that a job is
      #   rescheduled; the next conflict raises {Conflict}
      # @option options [Numeric] :at_least (0) seconds, up to 31_622_400, that the key stays
      #   taken after it was acquired, even if the job is done earlier
      # @option options [Integer] :limit (1) number of jobs, up to 65_535, that may hold the key at
      #   once
      # @option options [:log, :raise, #call] :on_lost (:log) the action when the lease is lost
      #   while the job runs, see {Locking#acquire}
      # @option options [:raise, :proceed] :on_unavailable (:raise) if the store is unavailable,
      #   `:raise` raises its error, and `:proceed` pushes and runs the job without its key
      # @option options [Numeric] :queued_ttl (86_400) seconds, 1 to 31_622_400, that a queued job
      #   keeps its key after it is due
      # @option options [Locking, String, #call, nil] :store the store of the keys: an open store,
      #   a URL, or a callable that returns a store at the first use. A store at a URL names its
      #   keys as the default store does. Without this option, the keys are in the default store.
      # @return [nil]
      # @raise [ArgumentError] an option is invalid, or the class is not a job class
      #
      # @example Two at a time for each account, whatever the other arguments are
      #   guard_with key: ->(account, *) { "export:#{account}" }, limit: 2
      # @example At most once in the queue
      #   guard_with during: :queued, on_conflict: :discard
      def guard_with(**options)
        front = Guard.fronts.find { |candidate| candidate.jobs?(self) }
        raise ArgumentError, <<~TEXT.tr("\n", " ").strip unless front
          guard_with: #{self} is not a class of jobs that plock can guard: include Sidekiq::Job and
          require "plock/sidekiq", or inherit from ActiveJob::Base and require "plock/active_job",
          before guard_with
        TEXT
        @plock_guard = Options.new(**options)
        front.guard(self)
        nil
      end

      # @api private
      # @return [Options, nil]
      def plock_guard
        return @plock_guard if defined?(@plock_guard)

        superclass.plock_guard if superclass.respond_to?(:plock_guard)
      end
    end
  end
end
