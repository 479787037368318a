# frozen_string_literal: true

require_relative "../locking/kind"

module Plock
  module Events
    # Something that happened to a lease, or to a guarded job.
    #
    # | name | duration | details |
    # | --- | --- | --- |
    # | `:acquire` | from the call until the key was acquired | `fence`, `ttl:` |
    # | `:contended` | if the key was held: from the call until it got the key or timed out | |
    # | `:timeout` | from the call until `wait:` ended | `wait:` |
    # | `:release` | how long the lease was held | `fence`, `released:` false if it was lost |
    # | `:lost` | from the acquire until the loss was noticed | `fence` |
    # | `:renew` | how long the renewal took | `fence`, `left:`, `late:` |
    # | `:release_failed` | how long the lease was held; 0.0 if unknown | `fence`, `error:` |
    # | `:abandoned` | 0.0 | `fence`, `expired:` true if nothing was left to release |
    # | `:adopt` | from the call until the lease was adopted | `fence`, `ttl:` |
    # | `:hand_over` | how long the lease was held | `fence` |
    # | `:wait_begin` | 0.0 | `keys:` |
    # | `:wait_end` | from the call until its outcome | `keys:`, `outcome:`, `error:` |
    # | `:job_rescheduled` | how long the job waited | as `:job_discarded`; `delay:` in seconds |
    # | `:job_discarded`, `:job_handled` | how long the job waited | `job:`, `job_id:`, `holder:` |
    # | `:job_refused` | how long the job waited | `job:`, `job_id:`, `holder:` |
    # | `:job_unguarded` | how long the job waited | `job:`, `job_id:`, `error:` |
    #
    # `job:` and `error:` are the names of classes. `holder:` is the label of the holder. The events
    # of a {ReadWriteLock} also have `mode:`, which is `:read` or `:write`.
    #
    # A renewal is `late:` if less than a third of the TTL was left when the store answered;
    # `left:` is the number of seconds that were left. A lease is `:abandoned` if the garbage
    # collector collected it without a release.
    #
    # A release or a loss may become known in the background, when the lease object no longer
    # exists. In that case the event has no label. An interrupted release emits `:release_failed`,
    # but continues in the background.
    #
    # Each call to acquire emits one `:wait_begin` and one `:wait_end`, whatever happens in
    # between. `outcome:` is `:acquired`, `:timed_out` or `:failed`; `error:` is the class of the
    # exception that ended the call, if there was one. A call for several keys emits them once,
    # for the first key; `keys:` is the number of keys. Only subscribers that name these two
    # events receive them.
    #
    # @example
    #   Plock.subscribe(:timeout) do |event|
    #     puts "#{event.label || event.key_digest}: gave up after #{event.duration} s"
    #   end
    class Event
      # @return [Symbol]
      attr_reader :name
      # @return [Float] seconds
      attr_reader :duration
      # @return [String] the digest under which the store knows the key. It distinguishes keys, and
      #   does not reveal them.
      attr_reader :key_digest
      # @return [String, nil]
      attr_reader :label
      # @return [Integer, nil]
      attr_reader :fence
      # @return [Symbol] `:lock`, `:semaphore`, `:read_write` or `:once`
      attr_reader :kind
      # @return [String, Symbol, nil] the key as the caller named it; nil if it is not known.
      #   {#to_h} and {#inspect} omit the key, because it may be confidential.
      attr_reader :key
      # @return [Integer, nil] the same for all events of one lease in this process; nil if there
      #   is no lease. {#to_h} omits it.
      attr_reader :lease_id
      # @return [Hash{Symbol => Object}] the other details in the table above
      attr_reader :details

      # The details that have their own attributes.
      ATTRIBUTES = %i[fence key lease_id].freeze
      private_constant :ATTRIBUTES

      # @api private
      def initialize(name, duration, store_key, label, details)
        kind = Locking::Kind.of(store_key)
        @name = name
        @duration = duration
        @key_digest = store_key.delete_suffix(kind.suffix)[/[^:]*\z/].delete("{}") # drops braces
        @kind = kind.name
        @label = label
        @fence, @key, @lease_id = details.values_at(*ATTRIBUTES)
        @details = details.except(*ATTRIBUTES).freeze
        freeze
      end

      # @return [Hash{Symbol => Object}] all attributes and details that are not nil, except
      #   {#key} and {#lease_id}
      def to_h
        {
          name: name, duration: duration, key_digest: key_digest, kind: kind, label: label,
          fence: fence, **details
        }.compact
      end

      # @return [String]
      def inspect = "#<#{self.class} #{to_h}>"
    end
  end
end
