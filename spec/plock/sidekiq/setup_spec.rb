# frozen_string_literal: true

require "spec_helper"
require "support/sidekiq_jobs"

RSpec.describe "require \"plock/sidekiq\"" do
  include_context "with Sidekiq"

  def config = Sidekiq.default_configuration

  it "is all the set-up: the key is taken before everything else, and released after it" do
    expect(config.server_middleware.map(&:klass).first).to eq(Plock::Sidekiq::ServerMiddleware)
    expect(config.client_middleware.map(&:klass).last).to eq(Plock::Sidekiq::ClientMiddleware)
    seen = done
    test = self
    around = stub_const("Around", Class.new do
      define_method(:call) do |*, &block|
        seen << test.held.size
        block.call
        seen << test.held.size
      end
    end)
    config.server_middleware.add(around)
    job_class { seen << :run }
    SomeJob.perform_async
    expect(work_all).to be_empty
    expect(done).to eq([1, :run, 1])
  ensure
    config.server_middleware.remove(around)
  end

  it "loads neither Rails nor ActiveSupport, nor Sidekiq's testing" do
    output, status = ruby(<<~RUBY)
      $VERBOSE = nil
      require "plock/sidekiq"
      puts $LOADED_FEATURES.grep(%r{/(activesupport|activejob|railties)-})
      puts $LOADED_FEATURES.grep(%r{/sidekiq/(testing|cli)[/.]})
      puts $LOADED_FEATURES.grep(%r{plock/jobs/(sidekiq|guard)}).size > 10
    RUBY
    expect([output, status.success?]).to eq(["true\n", true])
  end

  it "may come late, when Sidekiq works already" do
    output, status = ruby(<<~RUBY)
      $VERBOSE = nil
      require "sidekiq"
      require "sidekiq/capsule"
      capsule = Sidekiq.default_configuration.default_capsule
      capsule.server_middleware { |chain| chain.add(Class.new) }
      Sidekiq.freeze!
      require "plock/sidekiq"
      puts capsule.server_middleware.map(&:klass).first, capsule.client_middleware.map(&:klass).last
    RUBY
    expect([output, status.success?]).to eq(
      ["Plock::Sidekiq::ServerMiddleware\nPlock::Sidekiq::ClientMiddleware\n", true]
    )
  end

  it "says what it cannot work with" do
    output, status = ruby(<<~RUBY)
      $VERBOSE = nil
      require "sidekiq/version"
      Sidekiq.send(:remove_const, :VERSION)
      Sidekiq::VERSION = "7.2.4"
      begin
        require "plock/sidekiq"
      rescue Plock::UnsupportedError => e
        puts e.message
      end
    RUBY
    expect([output, status.success?]).to eq(
      ["plock/sidekiq needs Sidekiq 7.3 or later (this is 7.2.4)\n", true]
    )
  end

  describe "for a job without a guard" do
    before do
      ran = done
      stub_const("Plain", Class.new do
        include Sidekiq::Job
        define_method(:perform) { |*arguments| ran << arguments }
      end)
      stub_const("Idle", Class.new { include Sidekiq::Job }).include(Plock::Guard)
    end

    it "does nothing, and asks the store for nothing" do
      Plock.reset!
      Plock.configure { |c| c.url = "redis://127.0.0.1:1" }
      allow(Plock::Guard::Run).to receive(:new).and_raise("a guard")
      allow(Plock::Guard::Push).to receive(:new).and_raise("a guard")
      Plain.perform_async(1)
      Plain.perform_in(10, 2)
      Plain.perform_bulk([[3], [4]])
      Plain.perform_inline(5)
      Sidekiq::Client.push("class" => "Plain", "args" => [6])
      poll
      expect(work_all).to be_empty
      expect(done.flatten.sort).to eq([1, 2, 3, 4, 5, 6])
      expect(queue.size).to eq(0)
    end

    it "keeps what Sidekiq keeps of it, to the byte" do
      Plain.perform_async(1)
      expect(queue.first.item.keys).to match_array(
        %w[retry queue args class jid created_at enqueued_at]
      )
    end

    it "says nothing of a class that includes Plock::Guard and has no guard_with" do
      expect(Idle.plock_guard).to be_nil
      Idle.perform_async
      expect(work_all).to contain_exactly(an_instance_of(NoMethodError)) # the class has no perform
    end
  end

  it "takes part in a capsule of its own middleware" do
    seen = done
    test = self
    job_class(sidekiq: { queue: "single" }) { seen << test.held.size }
    single = Sidekiq::Capsule.new("single", config)
    single.queues = %w[single]
    SomeJob.perform_async
    Support::SidekiqJobs::Worker.new(single).work
    expect(done).to eq([1])
  end
end
