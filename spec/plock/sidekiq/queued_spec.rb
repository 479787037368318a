# frozen_string_literal: true

require "spec_helper"
require "support/sidekiq_jobs"

# Jobs that hold their key from the push on.
RSpec.describe "A Sidekiq job that is guarded in its queue" do
  include_context "with Sidekiq"

  def status = Plock.status("k")

  describe "with during: :queued" do
    it "has its key until it starts" do
      seen = done
      test = self
      job_class(key: "k", during: :queued) { seen << test.held }
      jid = SomeJob.perform_async
      expect(held).to eq(["SomeJob #{jid}"])
      expect(status.remaining).to be_between(86_390, 86_400)
      expect(work_all).to be_empty
      expect(done).to eq([[]])
    end

    it "lets the next one into the queue when it has started" do
      rest = self.rest
      job_class(key: "k", during: :queued, on_conflict: :discard) { rest.call }
      SomeJob.perform_async
      expect(SomeJob.perform_async).to be_nil
      _, thread = in_thread
      expect(SomeJob.perform_async).to be_a(String)
      going << true
      thread.join
    end

    it "does not have it for its retries" do
      job_class(key: "k", during: :queued) { raise "oops" }
      SomeJob.perform_async
      work_all
      expect(held).to be_empty
      poll
      other = Plock.acquire("k")
      expect(work_all).to contain_exactly(have_attributes(message: "oops"))
      other.release
      expect(log).not_to include("plock:")
    end
  end

  %i[queued queued_and_running].each do |during|
    it "keeps its key for at_least:, from the push on, with during: :#{during}" do
      job_class(key: "k", during: during, at_least: 30)
      SomeJob.perform_async
      expect(work_all).to be_empty
      expect(status.remaining).to be_between(20, 30.1)
    end
  end

  it "keeps its key for at_least:, from its start on, if it was put off until then" do
    job_class(key: "k", during: :queued, at_least: 30, max_conflicts: 1) { raise "oops" }
    Plock.acquire("k") do
      SomeJob.perform_async
      poll
    end
    expect(work_all).to contain_exactly(have_attributes(message: "oops"))
    expect(status.remaining).to be_between(20, 30.1)
    poll # the retry runs at once, although the lease of the first run has not ended
    expect(work_all).to contain_exactly(have_attributes(message: "oops"))
  end

  describe "with during: :queued_and_running" do
    # Each hand-over raises the fence. If a lease had been lost, the job would have acquired the
    # lock again, which the log would show.
    def expect_handed_over(*fences)
      expect(fences).to eq(fences.sort.uniq)
      expect(log).not_to match(/had lost its lease/)
    end

    it "has its key from the push until it is done, without a gap" do
      test = self
      seen = done
      job_class(key: "k", during: :queued_and_running, ttl: 5) do
        seen << [test.status.fence, test.status.remaining <= 5]
      end
      SomeJob.perform_async
      fence = status.fence
      expect(work_all).to be_empty
      expect(done).to match([[be > fence, true]])
      expect_handed_over(fence, done.first.first)
      expect(held).to be_empty
    end

    it "is renewed while it runs" do
      rest = self.rest
      job_class(key: "k", during: :queued_and_running, ttl: 0.2) { rest.call }
      SomeJob.perform_async
      _, thread = in_thread
      deadline = monotonic + 0.5
      eventually { monotonic > deadline }
      expect(status.held?).to be(true)
      going << true
      thread.join
      expect(events).to be_empty
    end

    it "has it through its retries, handed over from one run to the next" do
      seen = done
      test = self
      job_class(key: "k", during: :queued_and_running, ttl: 5, queued_ttl: 1_000) do
        seen << test.status.fence
        raise "oops" if seen.size < 3
      end
      SomeJob.perform_async
      fences = [status.fence]
      2.times do |n|
        expect(work_all.size).to eq(1)
        # Sidekiq's own delay before the retry is added to the 1,000 s
        expect(status).to have_attributes(remaining: be_between(1_000, 1_060))
        fences.push(done.last, status.fence)
        expect(SomeJob.set(queue: "other").perform_async).to be_a(String) # the job is put off
        expect(retries.size).to eq(1), "in round #{n}"
        scheduled.clear
        poll
      end
      expect(work_all).to be_empty
      expect(done.size).to eq(3)
      expect_handed_over(*fences, done.last)
      expect(held).to be_empty
    end

    it "tells when it loses its lease" do
      rest = self.rest
      lost = Queue.new
      job_class(
        key: "k", during: :queued_and_running, ttl: 0.6, on_lost: ->(lease) { lost << lease.label }
      ) { rest.call }
      jid = SomeJob.perform_async
      _, thread = in_thread
      Plock.break("k")
      expect(lost.pop).to eq("SomeJob #{jid}")
      going << true
      thread.join
    end

    it "asks for its key again where it was lost in the queue, and runs with that" do
      seen = done
      test = self
      job_class(key: "k", during: :queued_and_running) { seen << test.status.fence }
      jid = SomeJob.perform_async
      fence = status.fence
      Plock.break("k")
      expect(work_all).to be_empty
      expect(done.first).to be > fence
      expect(held).to be_empty
      expect(log).to match(
        /jid=#{jid}.* WARN: plock: SomeJob #{jid} had lost its lease before it started/
      )
    end

    it "does not run if another caller has acquired its key meanwhile" do
      job_class(key: "k", during: :queued_and_running)
      SomeJob.perform_async
      Plock.break("k")
      other = Plock.acquire("k")
      expect(work_all).to be_empty
      expect([done, scheduled.size]).to eq([[], 1])
      expect(other.release).to be(true)
      poll
      expect(work_all).to be_empty
      expect(done.size).to eq(1)
      expect(held).to be_empty
    end

    it "keeps it when it is pushed back by a shutdown, and two runs of it never overlap" do
      rest, ran = rest_once, done
      job_class(key: "k", during: :queued_and_running, on_conflict: :discard) do
        rest.call || ran << :again
      end
      jid = SomeJob.perform_async
      fence = status.fence
      processor, thread = in_thread
      capsule.fetcher.bulk_requeue([processor.job])
      expect(work_all).to be_empty
      expect([done, scheduled.map(&:jid)]).to eq([[], [jid]])
      expect(log).to match(/its own earlier run has not ended/)

      thread.raise(Sidekiq::Shutdown)
      thread.join
      expect(status).to have_attributes(remaining: be > 80_000)
      expect_handed_over(fence, status.fence)
      expect(held.size).to eq(1)
      poll
      expect(work_all).to be_empty
      expect([done, held]).to eq([[:again], []])
      expect(log).not_to match(/had lost its lease/)
    end

    it "is not taken from its run by another run of the same job, " \
       "even if the lock on the job's id is lost" do
      rest, ran = rest_once, done
      job_class(key: "k", during: :queued_and_running, on_conflict: :discard) do
        rest.call || ran << :again
      end
      jid = SomeJob.perform_async
      processor, thread = in_thread
      fence = status.fence
      Plock.break("job run:#{jid}")
      capsule.fetcher.bulk_requeue([processor.job])
      expect(work_all).to be_empty
      expect([done, scheduled.map(&:jid), status.fence]).to eq([[], [jid], fence])
      going << true
      thread.join
      expect(held).to be_empty
    end

    it "runs again, with its key, if its old run has ended well after all" do
      # The job is requeued while it runs, and its first run ends well. The second run is right,
      # because Sidekiq promises to run each job at least once.
      rest, ran = rest_once, done
      job_class(key: "k", during: :queued_and_running) { rest.call || ran << :again }
      SomeJob.perform_async
      processor, thread = in_thread
      capsule.fetcher.bulk_requeue([processor.job])
      going << false
      thread.join
      expect(held).to be_empty
      expect(work_all).to be_empty
      expect([ran, held]).to eq([%i[again again], []])
    end
  end

  describe "when another caller holds the key at the push" do
    before { @other = discard(Plock.acquire("k", label: "another job"), :release) }

    def guarded(**options) = job_class(key: "k", during: :queued_and_running, **options)

    it "is dropped, and that is told, with :discard" do
      guarded(on_conflict: :discard)
      expect(SomeJob.perform_async).to be_nil
      expect([queue.size, scheduled.size]).to eq([0, 0])
      expect(events.map { |event| [event.name, event.details[:holder]] }).to eq(
        [[:job_discarded, "another job"]]
      )
      expect(log).to match(
        /class=SomeJob jid=\h{24} WARN: plock: SomeJob \h{24} dropped: "k" is held since/
      )
    end

    it "raises, with :retry" do
      guarded(on_conflict: :retry)
      expect { SomeJob.perform_async }.to raise_error(
        Plock::Guard::Conflict, /label "another job"/
      )
      expect([queue.size, scheduled.size]).to eq([0, 0])
    end

    it "is put off, with :reschedule, and is pushed with its key as soon as it can have it" do
      guarded
      jid = SomeJob.perform_async
      expect(queue.size).to eq(0)
      expect(due_in(scheduled)).to be_between(-9, 1.3)
      poll
      expect(queue.size).to eq(0)
      expect(due_in(scheduled)).to be_between(-8, 2.6)
      @other.release
      poll
      expect(queue.map(&:jid)).to eq([jid])
      expect(held).to eq(["SomeJob #{jid}"])
      expect(work_all).to be_empty
      expect([done.size, held]).to eq([1, []])
    end

    it "stays scheduled for when it was scheduled, if that is later" do
      guarded
      SomeJob.perform_in(100)
      expect(due_in(scheduled)).to be_between(90, 101)
    end

    it "is never refused by Sidekiq's poller, but where it starts, after max_conflicts:" do
      guarded(max_conflicts: 1)
      SomeJob.perform_async
      poll
      expect(queue.size).to eq(1)
      expect(work_all).to contain_exactly(an_instance_of(Plock::Guard::Conflict))
      expect(retries.size).to eq(1)
      @other.release
      poll
      expect(work_all).to be_empty
      expect([done.size, held]).to eq([1, []])
    end

    it "does not start without having been alone in the queue, with during: :queued" do
      job_class(key: "k", during: :queued, max_conflicts: 1)
      SomeJob.perform_async
      poll
      expect(work_all).to contain_exactly(an_instance_of(Plock::Guard::Conflict))
      @other.release
      poll
      expect(work_all).to be_empty
      expect([done.size, held]).to eq([1, []])
    end
  end

  describe "that is scheduled" do
    it "has its key from the push on, for as long as it is scheduled, too" do
      job_class(key: "k", during: :queued_and_running, queued_ttl: 100)
      jid = SomeJob.perform_in(1_000)
      expect(status).to have_attributes(
        label: "SomeJob #{jid}", remaining: be_between(1_080, 1_100.1)
      )
      poll
      expect(status.label).to eq("SomeJob #{jid}")
      expect(work_all).to be_empty
      expect([done.size, held]).to eq([1, []])
    end
  end

  describe "that never gets into its queue" do
    before { job_class(during: :queued_and_running) }

    it "gives its key back where another middleware stops it" do
      stop = stub_const("Stop", Class.new { def call(*) = nil })
      Sidekiq.default_configuration.client_middleware.add(stop)
      expect(SomeJob.perform_async(1)).to be_nil
      expect(held).to be_empty
      Sidekiq.default_configuration.client_middleware.remove(stop)

      late = stub_const("Late", Class.new { def call(*) = (yield && nil) })
      Sidekiq.default_configuration.client_middleware.prepend(late)
      expect(SomeJob.perform_async(1)).to be_nil
      expect(held).to be_empty
    ensure
      [stop, late].each do |middleware|
        Sidekiq.default_configuration.client_middleware.remove(middleware)
      end
    end

    it "gives its key back where its arguments are not JSON" do
      [Time.now, :symbol, Float::NAN, "\xff", Object.new].each do |argument|
        expect { SomeJob.perform_async(argument) }.to raise_error(
          StandardError, /JSON|native|NaN|UTF-8|not allowed/i
        )
        expect(held).to be_empty
      end
      job_class(key: "k", during: :queued_and_running)
      expect { SomeJob.perform_async(Time.now) }.to raise_error(ArgumentError, /native JSON types/)
      expect(held).to be_empty
    end

    it "gives its key back where Sidekiq's Redis is away" do
      pool = Sidekiq::RedisConnection.create(url: "redis://127.0.0.1:1", timeout: 0.2)
      expect { SomeJob.set(pool: pool).perform_async(1) }.to raise_error(
        RedisClient::CannotConnectError
      )
      expect(held).to be_empty
      expect { Sidekiq::Client.via(pool) { SomeJob.perform_bulk([[1], [2]]) } }.to raise_error(
        RedisClient::CannotConnectError
      )
      expect(held).to be_empty
    end

    it "has none for perform_inline but while it runs" do
      seen = done
      test = self
      job_class(during: :queued_and_running) { seen << test.held.size }
      job_class("Other", during: :queued) { seen << test.held.size }
      SomeJob.perform_inline
      Other.perform_inline
      expect([done, held]).to eq([[1, 0], []])
    end
  end

  describe "that is pushed in bulk" do
    it "has a key each, and those that conflict are dropped" do
      job_class(during: :queued_and_running, on_conflict: :discard)
      expect(SomeJob.perform_bulk([[1], [2], [1]])).to match([/\h{24}/, /\h{24}/, nil])
      expect([queue.size, held.size]).to eq([2, 2])
      expect(work_all).to be_empty
      expect([done.map(&:last), held]).to eq([[1, 2], []])
    end

    it "has those that conflict put off, and the others queued" do
      job_class(during: :queued_and_running)
      jids = SomeJob.perform_bulk([[1], [1], [2]])
      expect(queue.map(&:jid)).to contain_exactly(jids[0], jids[2])
      expect(scheduled.map(&:jid)).to contain_exactly(jids[1])
      expect(work_all).to be_empty
      poll
      expect(work_all).to be_empty
      expect([done.map(&:last), held]).to eq([[1, 2, 1], []])
    end

    it "is scheduled in bulk" do
      job_class(during: :queued)
      SomeJob.perform_bulk([[1], [2]], batch_size: 1)
      Sidekiq::Client.push_bulk(
        "class" => SomeJob, "args" => [[3], [4]], "at" => Time.now.to_f + 1_000
      )
      expect([queue.size, scheduled.size, held.size]).to eq([2, 2, 4])
    end
  end

  describe "whose guard is another when it starts" do
    it "gives its key back where there is none any more" do
      job_class(key: "k", during: :queued_and_running)
      SomeJob.perform_async
      ran = done
      stub_const("SomeJob", Class.new do
        include Sidekiq::Job
        define_method(:perform) { ran << :plain }
      end)
      expect(work_all).to be_empty
      expect([done, held]).to eq([[:plain], []])
    end

    it "runs with the key that it has, whatever its class is called now" do
      test = self
      seen = done
      job_class("OldName", during: :queued_and_running)
      jid = OldName.perform_async(1)
      fence = Plock.each_lock.first.fence
      stub_const(
        "OldName",
        job_class("NewName", during: :queued_and_running) do |_|
          seen << [test.held, Plock.each_lock.map(&:fence).min]
        end
      )
      expect(work_all).to be_empty
      expect(done).to match([[["NewName #{jid}", "OldName #{jid}"], be > fence]])
      expect(held).to be_empty
    end

    it "has it where it was pushed before there was any" do
      stub_const("SomeJob", Class.new { include Sidekiq::Job })
      SomeJob.perform_async
      seen = done
      test = self
      job_class(key: "k", during: :queued_and_running) { seen << test.held.size }
      expect(work_all).to be_empty
      expect([done, held]).to eq([[1], []])
    end
  end

  it "is not known to a process that has no such class, and has its key where it starts" do
    Sidekiq::Client.push("class" => "SomeJob", "args" => [])
    expect(held).to be_empty
    seen = done
    test = self
    job_class(key: "k", during: :queued_and_running) { seen << test.held.size }
    expect(work_all).to be_empty
    expect([done, held]).to eq([[1], []])
  end

  it "may be another language's, whatever that calls its classes" do
    names = ["App.Worker", "app:worker", "App::", "RUBY_VERSION::Worker", "worker"]
    names.each do |name|
      expect(Sidekiq::Client.push("class" => name, "args" => [])).to be_a(String)
    end
    expect(queue.map(&:klass)).to match_array(names)
  end

  it "has its lease put into its iterations, too, and keeps it when one is interrupted" do
    stopping = [true]
    seen = done
    test = self
    stub_const("Each", Class.new do
      include Sidekiq::IterableJob
      include Plock::Guard
      guard_with key: "k", during: :queued_and_running, on_conflict: :discard
      define_method(:interrupted?) { stopping.shift }
      def build_enumerator(cursor:) = array_enumerator([1, 2], cursor: cursor)
      define_method(:each_iteration) { |item| seen << [item, test.status.fence] }
    end)
    require "sidekiq/job/interrupt_handler"
    Sidekiq.default_configuration.server_middleware.add(Sidekiq::Job::InterruptHandler)
    Each.perform_async
    fence = status.fence
    work_all
    expect(work_all).to be_empty
    expect(done.map(&:last)).to all(be > fence)
    expect(log).not_to match(/had lost its lease/)
    expect(done.map(&:first).uniq).to eq([1, 2])
    expect([queue.size, held]).to eq([0, []])
  ensure
    Sidekiq.default_configuration.server_middleware.remove(Sidekiq::Job::InterruptHandler)
  end
end
