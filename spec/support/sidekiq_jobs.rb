# frozen_string_literal: true

require "stringio"
require "support/redis_server"

module Support
  # Runs Sidekiq in the suite's own process. Its queues and the locks are in one Redis, which no
  # other specs use. A job runs only when an example calls for it, and jobs run one at a time, so
  # that no example has to wait.
  module SidekiqJobs
    # Sidekiq's processor without a manager. It runs one job as a thread of a real process does.
    class Worker
      attr_reader :processor

      def initialize(capsule)
        @processor = Sidekiq::Processor.new(capsule) { |*| nil }
      end

      # Runs the next job. Returns the exception that the job ended with, or nil.
      def work
        @processor.__send__(:process_one)
        nil
      rescue StandardError => e # any exception that the job raised
        e
      end
    end

    class << self
      # The Redis server. The first example that needs it also loads Sidekiq.
      def server
        @server ||= RedisServer.start(:plain).tap do |server|
          require "sidekiq"
          require "sidekiq/api"
          require "sidekiq/processor"
          require "sidekiq/scheduled"
          Sidekiq.default_configuration.logger = Logger.new(IO::NULL)
          Sidekiq.default_configuration.redis = { url: server.unix_url }
          require "plock/sidekiq"
        end
      end
    end

    def jobs_redis
      need(RedisServer::PROGRAM)
      SidekiqJobs.server
    end

    # Defines a job class. The block becomes its perform method. Without a block, perform appends
    # its arguments to `done`.
    def job_class(name = "SomeJob", sidekiq: {}, **guard, &perform)
      ran = done
      perform ||= ->(*arguments) { ran << [name, *arguments] }
      stub_const(name, Class.new do
        include Sidekiq::Job
        include Plock::Guard
        sidekiq_options(sidekiq)
        guard_with(**guard)
        define_method(:perform, &perform)
      end)
    end

    def done = @done ||= []

    # Runs all jobs in the queue, and returns the exceptions that jobs ended with.
    def work_all
      errors = []
      errors << Worker.new(capsule).work until queue.size.zero?
      errors.compact
    end

    def capsule = Sidekiq.default_configuration.default_capsule

    def queue = Sidekiq::Queue.new

    def scheduled = Sidekiq::ScheduledSet.new

    def retries = Sidekiq::RetrySet.new

    def dead = Sidekiq::DeadSet.new

    # Makes scheduled jobs and retries due at once, and runs Sidekiq's poller.
    def poll
      %w[schedule retry].each do |set|
        jobs_redis
          .call("ZRANGE", set, "0", "-1")
          .each { |job| jobs_redis.call("ZADD", set, "XX", "0", job) }
      end
      Sidekiq::Scheduled::Enq.new(Sidekiq.default_configuration).enqueue_jobs
    end

    # The number of seconds until the only job of a set is due.
    def due_in(set)
      expect(set.size).to eq(1)
      set.first.at.to_f - Time.now.to_f
    end

    # Runs the next job in a thread. Returns when the job is in its perform method, which it must
    # report with `rest`.
    def in_thread
      worker = Worker.new(capsule)
      thread = background { worker.processor.__send__(:process_one) }
      resting.pop
      [worker.processor, thread]
    end

    # A lambda for a job. It reports that the job is running, and then waits until the example
    # pushes to `going`.
    def rest
      told, wait = resting, going
      -> { (told << true) && wait.pop }
    end

    # A lambda like `rest`, but only its first call reports and waits.
    def rest_once
      runs, rest = [], self.rest
      -> { (runs << true).one? ? rest.call : nil }
    end

    def resting = @resting ||= Queue.new

    def going = @going ||= Queue.new

    # The labels of all holders.
    def held = Plock.each_lock.flat_map { |status| status.holders.map(&:label) }.sort

    # The log as text, with a line for each entry: class=SomeJob jid=… WARN: plock: …
    def log
      @log.string.each_line.map do |line|
        entry = JSON.parse(line)
        context =
          entry.fetch("ctx", {}).slice("class", "jid").sort.map { |pair| "#{pair.join("=")} " }
        "#{context.join}#{entry["lvl"]}: #{entry["msg"]}\n"
      end.join
    end

    def events = @events ||= []
  end
end

RSpec.shared_context "with Sidekiq" do
  include Support::SidekiqJobs

  before do
    jobs_redis.call("FLUSHALL") # only these specs use this Redis
    # Sidekiq keeps copies of its middleware chains. Without these copies, it uses the current
    # chains.
    %i[@server_chain @client_chain].each { |copy| capsule.instance_variable_set(copy, nil) }
    @log = StringIO.new
    Sidekiq.default_configuration.logger =
      Sidekiq::Logger.new(@log, level: :info, formatter: Sidekiq::Logger::Formatters::JSON.new)
    Plock.reset!
    Plock.configure do |c|
      c.url = jobs_redis.unix_url
      c.logger = Sidekiq.default_configuration.logger
    end
    Plock.subscribe(/job|lost/) { |event| events << event }
  end

  after do
    Plock.store.close
    Plock.reset!
    if @log.string.match?(/plock1:|\h{8}-\h{4}-\h{4}-\h{4}-\h{12}/)
      raise "there is a lease in the log"
    end
  end
end
