# frozen_string_literal: true

require_relative "command"
require_relative "description"

module Plock
  module CLI
    # `plock wait`
    #
    # If the key is held, the command waits in the queue, acquires the key and releases it at once.
    # So the command need not poll. When it has acquired the key, all earlier waiters have been
    # served, if the store has a queue for all processes.
    class WaitCommand < Command
      NAME = "wait"
      USAGE = "[options] KEY"
      DESCRIPTION = <<~TEXT
        Waits until KEY is free and the earlier waiters are served. It then holds KEY for a
        moment.
        Exit status: 0 if KEY is free, 75 if it was not free within --wait.
      TEXT

      TTL = 5.0 # seconds until KEY is free again if this process dies while it holds KEY
      LABEL = "plock wait"
      private_constant :TTL, :LABEL

      private

      def define(options)
        options.on("--wait SECONDS", "how long; by default without an end") do |text|
          @wait = seconds("--wait", text)
        end
        json_option(options)
      end

      def take(operands)
        super
        @wait = Locking::Arguments.span("--wait", @wait || Locking::Arguments::SPAN_MAX)
      end

      def call
        asked = Clock.now
        free = free? || served?([@wait - (Clock.now - asked), 0.0].max)
        report(free)
        free ? ExitStatus::OK : ExitStatus::BUSY
      end

      # Asks whether KEY is free, without acquiring it. Returns false if the store is unavailable,
      # so that the command waits.
      def free?
        !store.status(@key).held?
      rescue UnavailableError
        false
      end

      def served?(patience)
        !riding_out(patience) do |left|
          store.try_acquire(@key, wait: left, ttl: TTL, label: LABEL, &:release)
        end.nil?
      end

      def report(free)
        status = store.status(@key) if @json || !free
        $stdout.puts(json(Description.to_h(status))) if @json
        CLI.complain("#{@key.inspect} is #{Description.printable(status.to_s)}") unless free
      end
    end
  end
end
