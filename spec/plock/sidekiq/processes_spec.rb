# frozen_string_literal: true

require "spec_helper"
require "support/sidekiq_process"

# Runs real Sidekiq processes that are killed or shut down.
RSpec.describe "Sidekiq processes with guarded jobs" do
  include_context "with Sidekiq"

  def start(program, **options) =
    discard(Support::SidekiqProcess.new(jobs_redis, program, **options), :finish)

  def await_start(*processes)
    processes.each { |process| eventually(30, "no start:\n#{process.log}") { process.started? } }
  end

  def journal = jobs_redis.call("LRANGE", "journal", "0", "-1").map { |entry| JSON.parse(entry) }

  def note(*entry) = jobs_redis.call("RPUSH", "journal", JSON.generate(entry))

  # Defines the job class in this process, which pushes the jobs. The Sidekiq processes run them.
  def guarded(name, **guard) = job_class(name, **guard)

  # The ids of the jobs that the process has fetched but not finished.
  def unsettled(pid)
    journal.each_with_object({}) do |(what, jid, where), jobs|
      next unless where == pid

      jobs[jid] = true if what == "fetched"
      jobs.delete(jid) if what == "settled"
    end.keys
  end

  # Returns each case in which a job began while a job of the same key was still running. When a
  # process dies, its jobs no longer count as running.
  def overlaps
    inside = Hash.new { |all, key| all[key] = {} }
    journal.each_with_object([]) do |(what, jid, pid, key), found|
      case what
      when "enter"
        found << [key, jid, inside[key]] if inside[key].any?
        inside[key] = inside[key].merge(jid => pid)
      when "leave" then inside[key].delete(jid)
      when "dead" then inside.each_value { |jobs| jobs.delete_if { |_jid, of| of == pid } }
      end
    end
  end

  # Like `eventually`, but a failure also shows the output of the processes.
  def explained(seconds, *processes, &block)
    eventually(seconds, &block)
  rescue RSpec::Expectations::ExpectationNotMetError => e
    raise e.class,
          [e.message, *processes.map(&:log), journal.last(40).inspect, held.inspect].join("\n")
  end

  def idle?
    [queue, scheduled, retries].all? { |set| set.size.zero? }
  end

  it "run 200 jobs over 10 keys in 2 processes, of which one is killed, without an overlap, " \
     "an unexpected loss, or a key left behind", :slow do
    program = <<~'RUBY'
      class Work
        include Sidekiq::Job
        include Plock::Guard
        guard_with key: ->(key, _) { "key:#{key}" }, ttl: 1.5, wait: 0.5

        def perform(key, _number)
          note(:enter, jid, Process.pid, key)
          sleep 0.02
          note(:leave, jid, Process.pid, key)
        end
      end

      class Whole < Work
        guard_with during: :queued_and_running, ttl: 1.5, queued_ttl: 60
      end
    RUBY
    guarded("Work", key: ->(key, _) { "key:#{key}" })
    guarded("Whole", during: :queued_and_running, queued_ttl: 60)
    killed = start(program)
    other = start(program)
    await_start(killed, other)

    jids =
      Work.perform_bulk(Array.new(200) { |n| [n % 10, n] }) +
      Whole.perform_bulk(Array.new(20) { |n| ["whole #{n}", n] })
    expect(jids.uniq.size).to eq(220)

    # Stops the process when each of its threads has a job. If a thread were fetching a job when the
    # process is killed, Sidekiq would lose that job without a trace.
    eventually(20, "its threads are never busy all at once") do
      killed.stop
      break true if unsettled(killed.pid).size == 5

      killed.signal(:CONT)
      false
    end
    lost = unsettled(killed.pid)
    dead = killed.pid
    killed.signal(:KILL)
    killed.wait
    note(:dead, nil, dead)

    done = -> do
      left =
        journal.each_with_object({}) { |(what, jid), jobs| jobs[jid] = true if what == "leave" }
      jids - lost - left.keys
    end
    explained(40, other) { idle? && done.call.empty? && unsettled(other.pid).empty? }
    expect(overlaps).to be_empty
    expect(lost.size).to eq(5)
    eventually(3, "keys are left") { held.empty? }

    other.signal(:TERM)
    expect(other.wait).to be_success
    expect(jobs_redis.call("KEYS", "plock:v1:*")).to be_empty
  end

  it "hand their jobs over at a deploy, with none dropped, blocked by its own guard, " \
     "or run twice at once" do
    program = <<~'RUBY'
      class Work
        include Sidekiq::Job
        include Plock::Guard
        guard_with ttl: 30, on_conflict: :discard

        def perform(key)
          note(:enter, jid, Process.pid, key)
          first = Sidekiq.redis { |redis| redis.call("SET", "first:#{key}", "1", "NX") }
          sleep if first
        ensure
          sleep 1 if first && $! # the interrupted job ends slowly
          note(:leave, jid, Process.pid, key)
        end
      end

      class Whole < Work
        guard_with during: :queued_and_running, ttl: 30, on_conflict: :discard
      end
    RUBY
    guarded("Work", on_conflict: :discard)
    guarded("Whole", during: :queued_and_running, on_conflict: :discard)
    # The old process has a thread for each of its two jobs. A third thread could fetch a job that
    # the process has just pushed back, and that job would be lost.
    old = start(program, concurrency: 2)
    await_start(old)
    jids = [Work.perform_async("a"), Whole.perform_async("b")]
    eventually(10) { journal.count { |what,| what == "enter" } == 2 }
    young = start(program)
    await_start(young)

    old.signal(:TERM)
    explained(20, old, young) do
      journal
        .select { |what, _, pid| what == "leave" && pid == young.pid }
        .map { |entry| entry[1] }
        .sort == jids.sort
    end
    expect(overlaps).to be_empty
    expect(young.log.scan(/its own earlier run has not ended/).size).to be >= 2
    expect(old.wait).to be_success
    eventually(5, "keys are left") { idle? && held.empty? }
    expect(old.log + young.log).not_to match(/dropped|plock1:/)

    young.signal(:TERM)
    expect(young.wait).to be_success
  end
end
