# frozen_string_literal: true

require_relative "../lane"
require_relative "../worker"

module Torture
  module Stores
    # A lane whose calls are also interrupted by Thread#kill.
    class Lane < Torture::Lane
      # The adapter calls this with the reason of each failed call.
      def failed(text)
        File.open(File.join(@worker.folder, "#{@worker.life}.failures"), "a") do |file|
          file.syswrite("#{label} #{text.lines.first.to_s.chomp}\n")
        end
      end

      # The reasons of the failed calls of a run, by label.
      def self.failures(folder)
        Dir[File.join(folder, "*.failures")].flat_map { |path| File.readlines(path) }
                                            .to_h { |line| line.chomp.split(" ", 2) }
      end

      private

      # Does not interrupt the calls of spared workers. An interrupt could break a connection of
      # Active Record, and later calls on that connection would fail.
      def attempt(plan)
        plan.interrupt = nil if @worker.spared?
        super
      end

      def ask(plan)
        super.tap { |outcome| return own_timeout if outcome == :interrupted && plan.interrupt.nil? }
      end

      def own_timeout
        @worker.note("lane #{@number}, call #{@count}: a Timeout::Error of no Timeout")
        :unexpected
      end

      def interrupted_after(seconds, &block)
        return yield unless seconds

        @random.rand < 0.5 ? super : killed_after(seconds, &block)
      end

      def killed_after(seconds)
        thread = Thread.new do
          Thread.current.report_on_exception = false
          Thread.current[:torture_lane] = self
          yield
        end
        return if thread.join(seconds)

        thread.kill.join
        raise Timeout::Error
      end

      # Does nothing if the store cannot dump leases.
      def hand_over(lease) = (super if @worker.lock.hands_over?)
    end

    # A worker that connects to the store before it counts its threads and descriptors.
    class Worker < Torture::Worker
      LISTENING = 5.0 # seconds until the listener thread notices that it must end
      CLOSING_TIME = LISTENING + RUBY_THREAD_END + 4.0

      # Threads that do not count as leaks. The scheduler retries a failed release as long as the
      # store may still execute it. The listener outlives the last waiter until the store is closed.
      LASTING_THREADS = ["plock scheduler", "plock listener"].freeze

      # Is this a worker whose calls are never interrupted?
      def spared? = @adapter.fragile? && Stores.spared?(life)

      private

      def warm_up
        super
        @lock = @adapter.new(@address)
      end

      def lane(number) = Lane.new(self, number)

      def inventory
        descriptors, = super
        descriptors = descriptors.except(*@adapter.lost_sockets)
        sockets, others = descriptors.partition { |name, _| name.start_with?("socket:") }
        threads = Thread.list.reject { |thread| LASTING_THREADS.include?(thread.name) }
        [[*others, *sockets.drop(@adapter.kept_connections)].to_h, threads.size]
      end
    end
  end
end
