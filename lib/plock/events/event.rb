# frozen_string_literal: true

require_relative "../locking/kind"

module Plock
  module Events
    # Something that happened to a lease.
    #
    # | name | duration | besides | | --- | --- | --- | | `:acquire` | from the call until it was
    # acquired | `fence`, `ttl:` | | `:contended` | the same, where somebody else had it at first,
    # or until patience ended | | | `:timeout` | until patience ended | `wait:` | | `:release` | how
    # long it was held | `fence`, `released:` false where it was not ours any more | | `:lost` |
    # from acquiring it until the loss was learnt | `fence` | | `:renew` | how long the renewal took
    # | `fence` | | `:job_rescheduled` | until that was known | `job:` its class, `job_id:`,
    # `holder:` the label of who has the key, `delay:` seconds | | `:job_discarded`, `:job_handled`
    # | the same | `job:`, `job_id:`, `holder:` | | `:job_refused` | until {Guard::Conflict} was
    # raised | `job:`, `job_id:`, `holder:` | | `:job_unguarded` | until the job went without its
    # key | `job:`, `job_id:`, `error:` the name of its class |
    #
    # Those of a {ReadWriteLock} have `mode:` besides, `:read` or `:write`.
    #
    # @example
    #   Plock.subscribe(:timeout) { |event| puts "#{event.label || event.key_digest}: gave up after #{event.duration} s" }
    class Event
      # @return [Symbol]
      attr_reader :name
      # @return [Float] seconds
      attr_reader :duration
      # @return [String] that of the store's name for the key: a digest, which tells no more than
      #   two keys apart
      attr_reader :key_digest
      # @return [String, nil]
      attr_reader :label
      # @return [Integer, nil]
      attr_reader :fence
      # @return [Hash{Symbol => Object}] what else there is to say
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

      # @return [Hash{Symbol => Object}] without what is nil
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
