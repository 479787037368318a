# frozen_string_literal: true

require "async"
require_relative "heart"
require_relative "lane"
require_relative "../support/processes"

module Torture
  # A process that contends for the locks. Some of its lanes run on threads of their own, and the
  # others on fibers of one more thread. It also has a heart.
  class Worker
    RUBY_THREAD_END = 3.0 # seconds for which Ruby keeps the native thread of an ended Thread
    LINGERING = 5.0 # seconds for which a subscription outlives the last waiter
    CLOSING_TIME = RUBY_THREAD_END + LINGERING
    # The engine keeps up to 16 unused wakers for later waits, and always has three of its own.
    KEPT = { "anon_inode:[eventfd]" => 16 + 3 }.freeze

    attr_reader :seed, :life, :folder, :lock, :course

    # ends: a pipe that is closed at the end of the round, or when the driver dies.
    def initialize(seed:, life:, folder:, adapter:, address:, ends:, course:)
      @course = course
      @seed = seed
      @life = life
      @folder = folder
      @adapter = adapter
      @address = address
      @ends = ends
    end

    def run
      $stderr.reopen(File.join(folder, "#{life}.stderr"), "w")
      @pid = Process.pid
      Process.setrlimit(:NOFILE, course.files) if course.files
      @journal = Journal.new(folder, "#{life}.heart")
      warm_up
      before = inventory if Support::Inventory.available?
      live
      @lock.close
      take_stock(before) if @adapter.native? && Support::Inventory.available?
    end

    def ending? = @ending

    # Is this the worker process itself, and not a forked child of it?
    def here? = Process.pid == @pid

    # Writes a sentence for the maintainer who investigates a finding.
    def note(text) =
      File.open(File.join(folder, "#{life}.note"), "a") { |file| file.syswrite("#{text}\n") }

    # The parts of the worker that a child needs if it was forked in a block.
    class Child
      attr_reader :life

      def initialize(parent, life)
        @parent = parent
        @life = life
        @pid = Process.pid
      end

      def seed = @parent.seed
      def course = @parent.course
      def folder = @parent.folder
      def lock = @parent.lock
      def spared? = @parent.spared?
      def note(text) = @parent.note("child #{life}: #{text}")
      def here? = Process.pid == @pid
    end

    private

    def live
      @lock ||= @adapter.new(@address)
      heart = Heart.new(@journal)
      threads = course.threads.times.map { |number| Thread.new { lane(number).run } }
      threads << Thread.new { live_on_fibers } if course.fibers.positive?
      @ends.read
      @ending = true
      threads.each(&:join)
      heart.stop
    end

    def lane(number) = Lane.new(self, number)

    def live_on_fibers
      numbers = course.threads...(course.threads + course.fibers)
      Sync { |task| numbers.each { |number| task.async { lane(number).run } } }
    end

    # Opens the descriptors that Ruby and its libraries open at first use, and starts the thread
    # that reads plock's notices. None of them must count as leaks.
    def warm_up
      Plock::Dispatcher.start if @adapter.native?
      Thread.new { Sync { |task| task.async { Timeout.timeout(1) { sleep 0 } } } }.join
      Timeout.timeout(1) { sleep 0 }
    end

    def inventory = [Support::Inventory.descriptors.tally, Support::Inventory.threads]

    # Records the threads and descriptors that are left. Everything that the worker has started or
    # opened must be gone within CLOSING_TIME.
    def take_stock(before)
      deadline = Clock.now + Torture.ns(self.class::CLOSING_TIME)
      loop do
        GC.start
        left = inventory
        known = before[0].merge(KEPT) { |_, first, kept| first + kept }
        more = left[0].map { |name, count| [name, count - known.fetch(name, 0)] }
        descriptors = more.flat_map { |name, count| [name] * [count, 0].max }
        threads = [left[1] - before[1], 0].max
        return @journal.write(:inventory, 0, 0) if descriptors.empty? && threads.zero?

        if Clock.now > deadline
          note("left over: #{descriptors.tally}, and #{threads} threads more than at first: " \
               "#{Thread.list.map { |thread|
 thread.name || thread.backtrace&.first }.join(", ")}; " \
               "of the system: #{Dir["/proc/self/task/*/comm"].map { |file|
 File.read(file).chomp }}")
          return @journal.write(:inventory, descriptors.size, threads)
        end
        sleep 0.05
      end
    end
  end
end
