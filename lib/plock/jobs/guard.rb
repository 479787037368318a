# frozen_string_literal: true

require_relative ".."
require_relative "guard/errors"
require_relative "guard/options"

module Plock
  # A job that must not run twice at once says so. Loaded by `require "plock/sidekiq"` and
  # `require "plock/active_job"`.
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
      # @return [Array<#jobs?, #guard>] what runs jobs, as far as it is loaded
      attr_reader :fronts

      # @api private
      def included(job_class)
        super
        job_class.extend(Definition)
      end
    end

    # What a class of jobs gets by `include Plock::Guard`.
    module Definition
      # Guards the jobs of this class, and of its subclasses where they do not say otherwise.
      #
      # A job that is guarded `:running` holds its key while it runs. One that is guarded `:queued`
      # holds it from the push until it starts, so that a second one is not even queued;
      # `:queued_and_running` from the push until it is done, through all of its retries. While a
      # job runs its lease is renewed, however long it takes.
      #
      # @param key [#call, String, nil] is called with the job's arguments, and answers the key, a
      #   String or Symbol of 1 to 1024 bytes; a String is the key of all jobs of the class. By
      #   default class and arguments make the key.
      # @param during [:running, :queued, :queued_and_running]
      # @param ttl [Numeric] seconds, 0.005 to 31_622_400: when the key of a worker that was killed
      #   is free again
      # @param wait [Numeric] seconds that a worker waits for the key before it is a conflict, up to
      #   31_622_400
      # @param on_conflict [:reschedule, :retry, :discard, #call] what becomes of a job whose key
      #   somebody else has: it comes back later, after 1 s at first and 60 s at most; it raises
      #   {Conflict}; it is dropped, and that is logged. A callable is given the {Conflict}; its
      #   value is one of the three, or anything else where it has seen to the job itself.
      # @param max_conflicts [Integer, nil] how often it is rescheduled, at most; then {Conflict} is
      #   raised
      # @param at_least [Numeric] seconds that the key stays taken from when it was taken, even if
      #   the job is done before
      # @param limit [Integer] 1 to 65_535 jobs that may have the key at once
      # @param on_lost [:log, :raise, #call] what happens when the lease is lost while the job runs,
      #   see {Locking#acquire}
      # @param on_unavailable [:raise, :proceed] whether a job is pushed and run without its key
      #   where the store is away
      # @param queued_ttl [Numeric] seconds, 1 to 31_622_400: how long a job keeps its key in the
      #   queue, from when it is due
      # @param store [Locking, String, #call, nil] where the keys are: an opened store, a URL, at
      #   which keys are named as in the default store, or a callable that returns a store when the
      #   first key is asked for; by default the default store
      # @return [nil]
      # @raise [ArgumentError] an option that cannot be right; a class that is not one of jobs
      #
      # @example Two at a time for each account, whatever the other arguments are
      #   guard_with key: ->(account, *) { "export:#{account}" }, limit: 2
      # @example At most once in the queue
      #   guard_with during: :queued, on_conflict: :discard
      def guard_with(**options)
        front = Guard.fronts.find { |candidate| candidate.jobs?(self) } or raise ArgumentError, <<~TEXT.tr("\n", " ").strip
          guard_with: #{self} is not a class of jobs that plock can guard: include Sidekiq::Job and require "plock/sidekiq",
          or inherit from ActiveJob::Base and require "plock/active_job", before guard_with
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
