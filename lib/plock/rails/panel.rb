# frozen_string_literal: true

require_relative "../cli/doctor_command"
require_relative "../cli/list_command"
require_relative "../status/table"

module Plock
  class Railtie
    # The console's answer to `plock`: for each store, the locks that are held, the waiters, and
    # the doctor's findings. It changes nothing, and acquires no lock.
    #
    #     redis://localhost:6379
    #     STORE KEY     KIND  HOLDERS  LABEL     HOST   PID  SINCE                    LEFT   WAITING
    #     plock:v1:d9…  lock  1        "import"  web-1  812  2026-11-21 20:14:02 UTC  7.3 s  0
    #     doctor: 11 ok, 1 advice (secret), 1 DANGER (persistence); bin/rails plock:doctor says more
    #
    # @api private
    class Panel
      # The most rows that are shown for one store. More rows would fill the console.
      ROWS = 50
      LIST_S = 3.0 # seconds that listing the keys may take

      class << self
        # Makes `plock` a method of the console, in IRB and in Pry.
        def install
          require "irb/helper_method"
          helper = Class.new(IRB::HelperMethod::Base) do
            description "Shows the locks that are held, the waiters, and what the doctor finds."

            def execute(*stores) = Panel.of(stores)
          end
          IRB::HelperMethod.register(:plock, helper)
          return unless defined?(::Pry)

          TOPLEVEL_BINDING.receiver.define_singleton_method(:plock) { |*stores| Panel.of(stores) }
        end

        # @param stores [Array<Locking>] empty means the default store
        def of(stores) = new(stores.empty? ? [Plock.store] : stores)
      end

      def initialize(stores)
        @stores = stores
      end

      # Queries the stores now.
      def lines
        @stores.flat_map { |store| [store.url, *locks(store), *doctor(store)] }
      end

      def inspect = lines.join("\n")

      def pretty_print(printer)
        lines.each_with_index do |line, number|
          printer.text("\n", 0) unless number.zero?
          printer.text(line)
        end
      end

      private

      def locks(store)
        shown = []
        complete = store.each_lock_within(LIST_S) do |status|
          break false if shown.size == ROWS

          shown << status
        end
        more = "… and more: bin/rails plock:locks lists all" unless complete
        return [more || "no key is held"] if shown.empty?

        awaited = shown.select { |status| status.waiters.any? }
        [
          *CLI::ListCommand.table(shown), *more,
          *awaited.flat_map { |status| status.pretty_inspect.lines(chomp: true) }
        ]
      rescue Error => e
        ["the locks cannot be listed: #{e.message}"]
      end

      def doctor(store)
        found = CLI::Doctor::Examination.of(store, except: CLI::Doctor::Examination::ACTIVE)
                                        .group_by(&:level)
        counts = CLI::DoctorCommand::LOOKS.filter_map do |level, (word, colour)|
          findings = found[level] or next
          checks = " (#{findings.map(&:check).join(", ")})" unless level == :fine
          CLI::Paint.colour("#{findings.size} #{word}#{checks}", colour)
        end
        ["doctor: #{counts.join(", ")}; bin/rails plock:doctor says more"]
      rescue Error => e
        ["doctor: the store cannot be asked: #{e.message}"]
      end
    end
  end
end
