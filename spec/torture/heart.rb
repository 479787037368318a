# frozen_string_literal: true

require_relative "journal"

module Torture
  # A thread that does nothing but wake up often. While it cannot wake up, no other thread of the
  # process can return from a call. The lock is not to blame if the process meanwhile works or waits
  # for a processor. Otherwise, the lock may be to blame: a thread may be waiting without letting
  # the other threads run.
  class Heart
    BEAT = 0.01
    LATE = 0.005
    # beats between two readings of the time that threads have waited for a processor
    DELAYS_EVERY = 10

    def initialize(journal)
      @journal = journal
      @beats = 0
      @last = Clock.now
      @thread = Thread.new { beat until @stopped }
    end

    def stop
      @stopped = true
      @thread.join
    end

    private

    def beat
      @delays = delays if (@beats % DELAYS_EVERY).zero?
      @beats += 1
      cpu = processor
      sleep BEAT
      from = @last
      @last = Clock.now
      gap = @last - from - Torture.ns(BEAT)
      @journal.write(:gap, from, @last, excused(cpu, gap)) if gap > Torture.ns(LATE)
    end

    # For how much of the gap the lock is not to blame. Returns the whole gap if the kernel does not
    # tell how long threads waited.
    def excused(cpu, gap)
      now = delays
      return gap unless @delays && now

      [processor - cpu + [now - @delays, 0].max, gap].min
    end

    def processor = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID, :nanosecond)

    def delays
      return unless File.readable?("/proc/self/schedstat")

      Dir.children("/proc/self/task").sum do |task|
        File.read("/proc/self/task/#{task}/schedstat").split[1].to_i
      rescue SystemCallError
        0 # this thread has just ended
      end
    end
  end
end
