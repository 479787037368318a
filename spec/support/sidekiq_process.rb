# frozen_string_literal: true

require "json"
require "support/sidekiq_jobs"

module Support
  # A real `sidekiq` process that runs a program's jobs. It polls often. It appends the events of
  # its jobs to a list in Redis, the journal: [event, jid, pid, more…].
  class SidekiqProcess
    START_DEADLINE = 30.0
    JOURNAL = "journal"

    BOOT = <<~'RUBY'
      require "sidekiq"
      require "plock/sidekiq"

      def note(*entry) = Sidekiq.redis { |redis| redis.rpush("journal", JSON.generate(entry)) }

      # The outermost middleware. Notes which process fetched and settled each job.
      class Recorder
        include Sidekiq::ServerMiddleware

        def call(job, item, _queue)
          note(:fetched, item["jid"], Process.pid)
          yield
        ensure
          note(:settled, item["jid"], Process.pid)
        end
      end

      class Sidekiq::Scheduled::Poller
        private def initial_wait = nil # otherwise waits up to 15 s
      end

      Sidekiq.configure_server do |config|
        config.redis = { url: ENV.fetch("SIDEKIQ_REDIS") }
        config[:poll_interval_average] = 0.3
        config.server_middleware.prepend(Recorder)
        config.on(:startup) { note(:started, nil, Process.pid) }
      end
    RUBY

    attr_reader :pid

    def initialize(redis, program, concurrency: 5, timeout: 1)
      @redis = redis
      @name = "sidekiq-#{SecureRandom.hex(4)}"
      File.write("#{path}.rb", BOOT + program)
      @pid =
        Process.spawn(
          {
            "SIDEKIQ_REDIS" => redis.unix_url, "PLOCK_URL" => redis.unix_url,
            "RUBYLIB" => Examples::LIB
          },
          RbConfig.ruby,
          Gem.bin_path("sidekiq", "sidekiq"),
          "-r",
          "#{path}.rb",
          "-e",
          "test",
          "-c",
          concurrency.to_s,
          "-t",
          timeout.to_s,
          %i[out err] => "#{path}.log",
          :in => File::NULL
        )
      Supervisor.watch(@pid)
    end

    def journal = @redis.call("LRANGE", JOURNAL, "0", "-1").map { |entry| JSON.parse(entry) }

    def started? = journal.any? { |what, _jid, pid| what == "started" && pid == @pid }

    def log = File.read("#{path}.log")

    def signal(name) = Process.kill(name, pid)

    # Stops all threads of the process.
    def stop
      signal(:STOP)
      Process.wait(pid, Process::WUNTRACED)
    end

    # Waits for the end of the process, and returns its Process::Status.
    def wait
      _, status = Process.wait2(pid)
      Supervisor.forget(pid)
      @pid_before, @pid = pid, nil
      status
    end

    def finish
      return unless pid

      signal(:KILL)
      wait
    end

    private

    def path = File.join(Supervisor.folder, @name)
  end
end
