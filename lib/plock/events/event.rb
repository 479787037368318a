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
    # | `:renew` | the time that the renewal took | `fence` |
    # | `:job_rescheduled` | until the conflict | as `:job_discarded`, and `delay:` in seconds |
    # | `:job_discarded`, `:job_handled` | until the conflict | `job:`, `job_id:`, `holder:` |
    # | `:job_refused` | until {Guard::Conflict} was raised | `job:`, `job_id:`, `holder:` |
    # | `:job_unguarded` | until the job went on without its key | `job:`, `job_id:`, `error:` |
    #
    # `job:` and `error:` are the names of classes, `holder:` is the label of the holder. The events
    # of a {ReadWriteLock} also have `mode:`, `:read` or `:write`.
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
      # @return [Hash{Symbol => Object}] the other details of the table above
      attr_reader :details

      # @api private
      def initialize(name, duration, store_key, label, details)
        @name = name
        @duration = duration
        @key_digest = store_key.delete_suffix(Locking::Kind.of(store_key).suffix)[/[^:]*\z/]
        @label = label
        @fence = details[:fence]
        @details = details.reject { |detail, _| detail == :fence }.freeze
        freeze
      end

      # @return [Hash{Symbol => Object}] all attributes and details that are not nil
      def to_h
        {
          name: name, duration: duration, key_digest: key_digest, label: label, fence: fence,
          **details
        }.compact
      end

      # @return [String]
      def inspect
        "#<#{self.class} #{to_h}>"
      end
    end
  end
end
