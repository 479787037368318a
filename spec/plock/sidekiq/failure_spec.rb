# frozen_string_literal: true

require "spec_helper"
require "support/sidekiq_jobs"
require "tempfile"

RSpec.describe "A guarded Sidekiq job when something fails" do
  include_context "with Sidekiq"

  # Runs the block while the server of the locks is unreachable. The server of the queues stays
  # reachable.
  def away(&block)
    Plock.reset!
    Plock.configure do |c|
      c.url = "redis://127.0.0.1:1"
      c.logger = Sidekiq.default_configuration.logger
    end
    Plock.subscribe(/job/) { |event| events << event }
    block.call
  ensure
    back
  end

  def back
    Plock.reset!
    Plock.configure { |c| c.url = jobs_redis.unix_url }
  end

  describe "when the store is away at the push" do
    it "is not pushed, and says why" do
      job_class(during: :queued_and_running)
      away do
        expect { SomeJob.perform_async }.to raise_error(Plock::UnavailableError) { |e|
          expect(e.code).to eq(:connect)
        }
      end
      expect(queue.size).to eq(0)
      expect(log).to match(
        /ERROR: plock: SomeJob \h{24} cannot have its key: Plock::UnavailableError/
      )
    end

    it "is pushed without a key with on_unavailable: :proceed, reports that, " \
       "and gets its key when it starts" do
      seen = done
      test = self
      job_class(during: :queued_and_running, on_unavailable: :proceed) { seen << test.held.size }
      jid = away { SomeJob.perform_async }
      expect(events.map { |event| event.to_h.slice(:name, :job_id, :error) }).to eq(
        [{ name: :job_unguarded, job_id: jid, error: "Plock::UnavailableError" }]
      )
      expect(log).to match(
        /jid=#{jid} WARN: plock: SomeJob #{jid} goes unguarded: Plock::UnavailableError/
      )
      expect(work_all).to be_empty
      expect([done, held]).to eq([[1], []])
    end

    it "is still pushed by Sidekiq's poller, which would lose it otherwise" do
      job_class(key: "k", during: :queued_and_running)
      Plock.acquire("k") { SomeJob.perform_async }
      away { poll }
      expect(queue.size).to eq(1)
      expect(work_all).to be_empty
      expect([done.size, held]).to eq([1, []])
    end

    it "is pushed as ever where it needs no key in its queue" do
      job_class
      expect(away { SomeJob.perform_async }).to be_a(String)
    end
  end

  describe "when the store is away at the start" do
    %i[running queued queued_and_running].each do |during|
      it "is Sidekiq's to try again, and has not run, with during: #{during.inspect}" do
        job_class(during: during)
        SomeJob.perform_async
        away { expect(work_all).to contain_exactly(an_instance_of(Plock::UnavailableError)) }
        expect([done, retries.size]).to eq([[], 1])
        poll
        expect(work_all).to be_empty
        expect([done.size, held]).to eq([1, []])
      end

      it "runs without a key where it may, and that is told, with during: #{during.inspect}" do
        job_class(during: during, on_unavailable: :proceed)
        jid = SomeJob.perform_async
        away { expect(work_all).to be_empty }
        expect(done.size).to eq(1)
        expect(events.map { |event| event.to_h.slice(:name, :job_id) }).to eq(
          [{ name: :job_unguarded, job_id: jid }]
        )
        expect(log).to match(/WARN: plock: SomeJob #{jid} goes unguarded/)
      end
    end

    it "does not run without a key for a wrong password, which no wait cures" do
      job_class(on_unavailable: :proceed)
      SomeJob.perform_async
      Plock.reset!
      Plock.configure do |c|
        c.url = redis_server(:password).url(password: "wrong")
        c.logger = Sidekiq.default_configuration.logger
      end
      expect(work_all).to contain_exactly(an_instance_of(Plock::AuthenticationError))
      expect([done, retries.size]).to eq([[], 1])
    ensure
      back
    end

    it "gives its key back when the store is there again by the time it is done" do
      test = self
      job_class(during: :queued_and_running, on_unavailable: :proceed) { test.back }
      SomeJob.perform_async
      away { expect(work_all).to be_empty }
      expect(held).to be_empty
    end
  end

  describe "when the store goes away while it runs" do
    let(:proxy_to_locks) { proxy(jobs_redis) }

    before do
      Plock.reset!
      Plock.configure do |c|
        c.url = proxy_to_locks.url
        c.logger = Sidekiq.default_configuration.logger
      end
      Plock.subscribe(:lost) { |event| events << event }
    end

    def cut_off
      proxy_to_locks.refuse
      proxy_to_locks.disconnect
    end

    it "is told by an event and an error line, and goes on" do
      rest = self.rest
      job_class(ttl: 0.3) { rest.call }
      jid = SomeJob.perform_async
      _, thread = in_thread
      cut_off
      eventually { events.any? }
      eventually { log.include?("has lost its lease") }
      expect(events.first).to have_attributes(name: :lost, label: "SomeJob #{jid}")
      lease = /its lease on "job:SomeJob:\h+" \(fence \d+\) after 0\.\d+ s/
      loss = /plock: SomeJob #{jid} has lost #{lease}/
      expect(log).to match(/class=SomeJob jid=#{jid}.* ERROR: #{loss}/)
      going << true
      thread.join
      expect(retries.size).to eq(0)
    end

    it "tells a callable" do
      rest, lost = self.rest, Queue.new
      job_class(ttl: 0.3, on_lost: ->(lease) { lost << lease.lost? }) { rest.call }
      SomeJob.perform_async
      _, thread = in_thread
      cut_off
      expect(lost.pop).to be(true)
      going << true
      thread.join
    end

    %i[running queued_and_running].each do |during|
      it "is interrupted with on_lost: :raise and retried by Sidekiq, " \
         "with during: #{during.inspect}" do
        rest, ran = rest_once, done
        job_class(during: during, ttl: 0.3, on_lost: :raise) { rest.call || ran << :again }
        SomeJob.perform_async
        worker = Support::SidekiqJobs::Worker.new(capsule)
        thread = background { worker.work }
        resting.pop
        cut_off
        expect(thread.value).to be_a(Plock::LeaseLost)
        expect(retries.size).to eq(1)
        proxy_to_locks.forward
        poll
        expect(work_all).to be_empty
        expect([done, held]).to eq([[:again], []])
      end
    end

    it "ends, and leaves its key to expire, if the store is unreachable at its end" do
      rest = self.rest
      job_class(key: "k", during: :queued_and_running, ttl: 0.5) { rest.call }
      jid = SomeJob.perform_async
      _, thread = in_thread
      cut_off
      going << true
      thread.join
      expect(log).to match(/WARN: plock: SomeJob #{jid} is done; its key is free within 0\.5 s/)
      proxy_to_locks.forward
      eventually { held.empty? }
    end
  end

  describe "when clocks jump" do
    # Moves only the wall clock. Leases use a clock that cannot be set.
    def jump(seconds)
      allow(Process).to receive(:clock_gettime).and_wrap_original do |original, clock, *unit|
        if clock == Process::CLOCK_REALTIME && unit.empty?
          original.call(clock) + seconds
        else
          original.call(clock, *unit)
        end
      end
      allow(Time).to receive(:now).and_wrap_original { |original| original.call + seconds }
    end

    [-100_000_000, 100_000_000].each do |seconds|
      it "has its key through a jump of #{seconds} s in its queue, and again while it runs" do
        seen = done
        test = self
        job_class(key: "k", during: :queued_and_running, ttl: 5) do
          test.jump(-seconds)
          seen << test.held.size
        end
        SomeJob.perform_async
        fence = Plock.status("k").fence
        jump(seconds)
        expect(Plock.status("k").fence).to eq(fence)
        expect(work_all).to be_empty
        expect([done, held]).to eq([[2], []])
      end

      it "does not keep its key for longer than at_least: after a jump of #{seconds} s" do
        job_class(key: "k", during: :queued_and_running, at_least: 30)
        SomeJob.perform_async
        jump(seconds)
        expect(work_all).to be_empty
        expect(Plock.status("k").remaining || 0).to be_between(0, 30.1)
      end

      it "is scheduled for no longer than a store can be asked for after a jump of #{seconds} s" do
        job_class(key: "k", during: :queued, queued_ttl: 100)
        at = Time.now.to_f + 10
        jump(seconds)
        SomeJob.perform_at(at)
        expect(Plock.status("k").remaining).to be_between(90, 31_622_400)
      end
    end
  end

  describe "when its key cannot be right" do
    %i[running queued].each do |during|
      {
        "raises" => ->(_) { raise "no such account" }, "answers nil" => ->(_) {}
      }.each do |what, key|
        it "fails, and says so, if the key: #{what}, with during: #{during.inspect}" do
          job_class(key: key, during: during)
          if during == :queued
            expect { SomeJob.perform_async(1) }.to raise_error(
              Plock::Guard::InvalidKey, /key: of SomeJob/
            )
            expect(queue.size).to eq(0)
          else
            SomeJob.perform_async(1)
            expect(work_all).to contain_exactly(an_instance_of(Plock::Guard::InvalidKey))
            expect(retries.first["error_message"]).to match(
              /key: of SomeJob (raised RuntimeError: no such account|answered nil)/
            )
          end
          expect(held).to be_empty
        end
      end
    end
  end

  # The poller removes a job from the scheduled or retry set, and then pushes it. If the guard
  # raised an error during the push, the job would be lost.
  describe "when Sidekiq's poller brings it back" do
    def put_off = Plock.acquire("k") { SomeJob.perform_async }

    it "is queued even if its key: raises, and raises where it starts" do
      gone = false
      job_class(key: ->(*) { gone ? raise("no such user") : "k" }, during: :queued_and_running)
      put_off
      gone = true
      poll
      expect([scheduled, queue, retries].map(&:size)).to eq([0, 1, 0])
      expect(log).to match(
        /jid=\h{24} ERROR: plock: SomeJob \h{24} is queued unguarded: .*InvalidKey: .*no such user/
      )
      expect(work_all).to contain_exactly(an_instance_of(Plock::Guard::InvalidKey))
      gone = false
      poll
      expect(work_all).to be_empty
      expect([done.size, held]).to eq([1, []])
    end

    %i[queued queued_and_running].each do |during|
      it "is queued even if its on_conflict: raises, with during: #{during.inspect}" do
        job_class(
          key: "k", during: during,
          on_conflict: ->(conflict) { conflict.conflicts > 1 ? raise(conflict) : :reschedule }
        )
        put_off
        Plock.acquire("k") do
          poll
          expect([scheduled, queue, retries].map(&:size)).to eq([0, 1, 0])
          expect(work_all).to contain_exactly(an_instance_of(Plock::Guard::Conflict))
        end
        poll
        expect(work_all).to be_empty
        expect([done.size, held]).to eq([1, []])
      end
    end

    it "is queued even if its store cannot be had" do
      job_class(key: "k", during: :queued)
      put_off
      job_class(key: "k", during: :queued, store: -> { raise "no such store" })
      poll
      expect(queue.size).to eq(1)
      expect(work_all).to contain_exactly(have_attributes(message: "no such store"))
      expect(retries.size).to eq(1)
    end

    it "is queued even if its class cannot be loaded" do
      Sidekiq::Client.push("class" => "Broken", "args" => [], "at" => Time.now.to_f + 100)
      Tempfile.create(["broken", ".rb"]) do |file|
        file.write("raise 'a bug'")
        file.close
        Object.autoload(:Broken, file.path)
        poll
        expect(queue.size).to eq(1)
        expect(work_all).to contain_exactly(have_attributes(message: "a bug"))
        expect(retries.size).to eq(1)
      ensure
        Object.__send__(:remove_const, :Broken)
      end
    end
  end

  # Sidekiq's own error handler logs everything that it receives. So the job's text must not contain
  # the lease.
  describe "of which Sidekiq gives the text to its error handlers, too" do
    let(:told) { [] }

    before do
      handler = ->(_error, context, _config) { told << context.slice(:context, :jobstr) }
      Sidekiq.default_configuration.error_handlers << handler
    end

    after { Sidekiq.default_configuration.error_handlers.pop }

    def text = jobs_redis.call("LINDEX", "queue:default", "0")

    it "is told without its lease, and keeps it" do
      job_class(key: "k", during: :queued_and_running) { raise "oops" }
      SomeJob.perform_async
      pushed = text
      allow(Sidekiq).to receive(:dump_json).and_wrap_original do |original, item|
        raise "no retry" if item.is_a?(Hash) && item.key?("error_message")

        original.call(item)
      end
      expect(work_all).to contain_exactly(have_attributes(message: "no retry"))
      expect(told.map { |context| context[:context] }).to eq(["Internal exception!"])
      expect(JSON.parse(told.first[:jobstr])).to eq(JSON.parse(pushed).except("plock"))
      jobs_redis.call("LPUSH", "queue:default", pushed)
      job_class(key: "k", during: :queued_and_running)
      expect(work_all).to be_empty
      expect([done.size, held]).to eq([1, []])
      expect(log).not_to match(/had lost its lease/)
    end

    it "is left out where it is no job any more" do
      job_class(during: :queued)
      SomeJob.perform_async
      damaged = [text[..-2], "[#{text}]"]
      jobs_redis.call("DEL", "queue:default")
      jobs_redis.call("LPUSH", "queue:default", damaged.first)
      work_all
      Sidekiq.default_configuration.handle_exception(
        RuntimeError.new("oops"), { context: "Another", jobstr: damaged.last }
      )
      expect(told).to eq([{ context: "Invalid JSON for job" }, { context: "Another" }])
    end
  end

  it "runs where what travelled with it is damaged" do
    job_class(key: "k", during: :queued_and_running)
    SomeJob.perform_async
    text = jobs_redis.call("RPOP", "queue:default")
    item = JSON.parse(text)
    [
      5, {}, { "lease" => "nonsense" }, { "lease" => "plock1:aw==:0:nonsense" },
      { "lease" => "memory x y", "conflicts" => -1 }
    ].each do |ticket|
      jobs_redis.call("LPUSH", "queue:default", JSON.generate(item.merge("plock" => ticket)))
    end
    Plock.break("k")
    expect(work_all).to be_empty
    expect([done.size, held]).to eq([5, []])
  end
end
