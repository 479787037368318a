# frozen_string_literal: true

require_relative "../status"

module Plock
  module CLI
    # A {Plock::Status} for people, and for programs.
    module Description
      class << self
        # @param status [Plock::Status]
        # @return [Hash{Symbol => Object}] for JSON
        def to_h(status)
          { key: status.key, store_key: status.store_key, held: status.held?, owner: (person(status) if status.held?),
            fence: status.fence, since: moment(status.since), remaining: status.remaining,
            waiters: status.waiters.map { |waiter| person(waiter).merge(since: moment(waiter.since)) } }
        end

        # @param status [Plock::Status]
        # @return [Array<String>] lines
        def lines(status)
          return ["#{name(status)}: free", *waiters(status)] unless status.held?

          left = status.remaining ? format("%.1f s left", status.remaining) : "without an end"
          fence = ", fence #{status.fence}" if status.fence
          ["#{name(status)}: #{printable(status.to_s)}, #{left}#{fence}", *waiters(status)]
        end

        # What others have written into the store is not to give orders to a terminal.
        #
        # @param text [String]
        # @return [String]
        def printable(text)
          text.scrub.gsub(/[[:cntrl:]]/, "?")
        end

        # @param status [Plock::Status]
        # @return [String]
        def name(status)
          status.key&.inspect || status.store_key
        end

        private

        def waiters(status)
          status.waiters.map { |waiter| "  waits: #{printable(waiter.to_s)}#{", since #{moment(waiter.since)}" if waiter.since}" }
        end

        # Of the holder and of a waiter the same is known.
        def person(known)
          { host: known.host&.scrub, pid: known.pid, thread: known.thread, label: known.label&.scrub }
        end

        def moment(time)
          time&.utc&.strftime("%FT%T.%3NZ")
        end
      end
    end
  end
end
