# frozen_string_literal: true

require_relative "../plain_text"
require_relative "../status"

module Plock
  module CLI
    # Describes a {Plock::Status} for people, and for programs.
    module Description
      class << self
        # @return [Hash{Symbol => Object}] for JSON
        def to_h(status)
          first = status.holders.first
          {
            key: status.key,
            store_key: status.store_key,
            kind: status.kind,
            node: status.node,
            held: status.held?,
            owner: first && person(first),
            fence: status.fence,
            since: moment(status.since),
            remaining: status.remaining,
            holders:
              status.holders.map do |holder|
                someone(holder).merge(fence: holder.fence, remaining: holder.remaining)
              end,
            waiters: status.waiters.map { |waiter| someone(waiter) }
          }
        end

        def lines(status)
          return ["#{name(status)}: #{status}", *waiters(status)] unless status.held?

          left = status.remaining ? format("%.1f s left", status.remaining) : "without an end"
          fence = ", fence #{status.fence}" if status.fence
          [
            "#{name(status)}: #{printable(status.to_s)}, #{left}#{fence}", *others(status),
            *waiters(status)
          ]
        end

        # Makes untrusted text safe for a terminal.
        def printable(text) = PlainText.of(text, instead: "?")

        def name(status) = status.key&.inspect || status.store_key

        private

        def others(status)
          status.holders.drop(1).map do |holder|
            "  holds: #{printable(holder.to_s)}#{", fence #{holder.fence}" if holder.fence}"
          end
        end

        def waiters(status)
          status.waiters.map do |waiter|
            # as in {Plock::Status#to_s}
            since = ", since #{waiter.since.utc.strftime("%F %T.%3N UTC")}" if waiter.since
            "  waits: #{printable(waiter.to_s)}#{since}"
          end
        end

        # The facts that holders and waiters have in common.
        def someone(known) = person(known).merge(since: moment(known.since), mode: known.mode)

        def person(known)
          { host: known.host, pid: known.pid, thread: known.thread, label: known.label }
        end

        def moment(time) = time&.utc&.strftime("%FT%T.%3NZ")
      end
    end
  end
end
