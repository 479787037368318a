# frozen_string_literal: true

require_relative "../locking/kind"

module Plock
  module Events
    # Something that happened to a lease.
    #
    # | name | duration | details |
    # | --- | --- | --- |
    # | `:acquire` | from the call until it was acquired | `fence`, `ttl:` |
    # | `:contended` | from the call, if the key was held, until it was acquired or timed out | |
    # | `:timeout` | from the call until `wait:` ended | `wait:` |
    # | `:release` | the time that it was held | `fence`, `released:` false if it was lost |
    # | `:lost` | from the acquire until the loss was noticed | `fence` |
    # | `:renew` | the time that the renewal took | `fence`, `left:`, `late:` |
    # | `:release_failed` | the time that it was held, or 0.0: not known | `fence`, `error:` |
    # | `:abandoned` | 0.0 | `fence`, `expired:` true if nothing was left to release |
    # | `:adopt` | from the call until it was adopted | `fence`, `ttl:` |
    # | `:hand_over` | the time that it was held | `fence` |
    # | `:wait_begin` | 0.0 | `keys:` |
    # | `:wait_end` | from the call until its outcome | `keys:`, `outcome:`, `error:` |
    # | `:job_rescheduled` | until the conflict | as `:job_discarded`, and `delay:` in seconds |
    # | `:job_discarded`, `:job_handled` | until the conflict | `job:`, `job_id:`, `holder:` |
    # | `:job_refused` | until {Guard::Conflict} was raised | `job:`, `job_id:`, `holder:` |
    # | `:job_unguarded` | until the job went on without its key | `job:`, `job_id:`, `error:` |
    #
    # `job:` and `error:` are the names of classes, `holder:` is the label of the holder. The events
    # of a {ReadWriteLock} also have `mode:`, `:read` or `:write`.
    #
    # A renewal is `late:` if less than a third of the TTL was left when the store had answered;
    # `left:` tells how many seconds. A lease is `:abandoned` if it was collected by the garbage
    # collector without a release. The release of a lease, or its loss, can become known in the
    # background when the lease is gone: then the event has no label. A release that was interrupted
    # has failed as far as its event knows, and goes on in the background.
    #
    # Each call to acquire has one `:wait_begin` and one `:wait_end`, whatever happens in between.
    # `outcome:` is `:acquired`, `:timed_out` or `:failed`; `error:` is the class of the exception
    # that ended the call, if there was one. A call for several keys has them once, with the first
    # key; `keys:` is the number of keys. Only subscribers that name these two events get them.
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
      # @return [String] the digest in the key's name in the store. It distinguishes keys, and does
      #   not reveal them.
      attr_reader :key_digest
      # @return [String, nil]
      attr_reader :label
      # @return [Integer, nil]
      attr_reader :fence
      # @return [Symbol] `:lock`, `:semaphore`, `:read_write` or `:once`
      attr_reader :kind
      # @return [String, Symbol, nil] the key as the caller named it; nil: it is not known. {#to_h}
      #   and {#inspect} leave it out, since it may be confidential.
      attr_reader :key
      # @return [Integer, nil] the same for all events of one lease in this process; nil: there is
      #   no lease. {#to_h} leaves it out.
      attr_reader :lease_id
      # @return [Hash{Symbol => Object}] the other details of the table above
      attr_reader :details

      # The details that are attributes of their own.
      ATTRIBUTES = %i[fence key lease_id].freeze
      private_constant :ATTRIBUTES

      # @api private
      def initialize(name, duration, store_key, label, details)
        kind = Locking::Kind.of(store_key)
        @name = name
        @duration = duration
        @key_digest = store_key.delete_suffix(kind.suffix)[/[^:]*\z/].delete("{}") # a hash tag
        @kind = kind.name
        @label = label
        @fence, @key, @lease_id = details.values_at(*ATTRIBUTES)
        @details = details.except(*ATTRIBUTES).freeze
        freeze
      end

      # @return [Hash{Symbol => Object}] all attributes and details that are not nil, but for
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
