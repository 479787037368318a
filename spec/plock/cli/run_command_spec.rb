# frozen_string_literal: true

require "spec_helper"
require "io/nonblock"
require "support/command_line"

RSpec.describe "plock run", needs: "redis-server" do
  include Support::CommandLine

  let(:key) { lock_name }
  let(:store) { open_store }

  def run_plock(*options, command, **others) = plock("run", key, *options, "--", *command, **others)

  def shell(script) = ["sh", "-c", script]

  it "runs the command while it holds the key, and gives the key back" do
    command = shell('echo "$PLOCK_KEY $PLOCK_TOKEN $PLOCK_FENCE" >&3; read line')
    job = start_plock("run", key, "--label", "nightly", "--", *command, input: true)
    told = job.line.split
    status = store.status(key)
    expect(status).to have_attributes(
      held?: true, pid: job.pid, label: "nightly", fence: Integer(told.last)
    )
    expect(shared_redis.call("GET", status.store_key)).to eq told[-2]
    expect(told[0..-3].join(" ")).to eq key
    job.tell
    expect(job.finish.exitstatus).to eq 0
    expect(store.status(key)).not_to be_held
    expect(job.said).to eq ["", ""]
  end

  it "has the exit status of the command, and 128 + n if signal n ended it" do
    expect(run_plock(%w[true]).last.exitstatus).to eq 0
    expect(run_plock(shell("exit 42")).last.exitstatus).to eq 42
    expect(run_plock(shell("kill -TERM $$")).last.exitstatus).to eq 143
    expect(run_plock(shell("kill -KILL $$")).last.exitstatus).to eq 137
  end

  it "exits with 127 if there is no such command, with 126 if it cannot run it, and says why" do
    output, errors, status = run_plock(%w[no-such-command --store x])
    expect([output, status.exitstatus]).to eq ["", 127]
    expect(errors).to eq "plock: no-such-command: No such file or directory\n"
    expect(run_plock([__FILE__]).then { |_, said, ended| [said, ended.exitstatus] }).to eq [
      "plock: #{__FILE__}: Permission denied\n",
      126
    ]
    expect(store.status(key)).not_to be_held
  end

  # While the system refuses processes, Ruby's fork waits, and tries again every second.
  {
    "a process for the command" => "Plock::CLI::Child.prepend(Module.new { def fork = sleep })",
    "a thread" => <<~RUBY
      def Thread.new(*)
        raise(ThreadError, "can't create Thread: Resource temporarily unavailable")
      end
    RUBY
  }.each do |what, refusal|
    it "exits with 71 and leaves the key free if the system refuses it #{what}", :slow do
      *said, status =
        plock_after("require \"plock/cli/job\"\n#{refusal}", "run", key, "--", "echo", "ran")
      reason = /(can't create Thread: )?Resource temporarily/
      expect([said, status.exitstatus]).to match(
        [["", /\Aplock: the system refuses what the command needs: #{reason}/], 71]
      )
      expect(store.status(key)).not_to be_held
    end
  end

  it "leaves the arguments of the command alone, with -- or without" do
    expect(run_plock(["echo", "--ttl", "x", "--", "*", "a b"]).first).to eq "--ttl x -- * a b\n"
    expect(
      plock("run", "--wait", "1", key, "--ttl", "5", "echo", "--json", "-x").first
    ).to eq "--json -x\n"
    expect(plock("run", key, "--", "echo $HOME").last.exitstatus).to eq 127 # no shell runs it
  end

  it "passes on the descriptors that it was given" do
    expect(start_plock("run", key, "--", *shell("echo here >&3")).line).to eq "here"
  end

  describe "when another holder has the key" do
    def while_held
      store.acquire(key, ttl: 30, label: "import") { yield }
    end

    it "exits with 75, names the holder, and does not run the command" do
      output, errors, status = while_held { run_plock(shell("echo ran")) }
      expect([output, status.exitstatus]).to eq ["", 75]
      pid = Process.pid
      expect(errors).to match(
        /\Aplock: "#{key}" is held since .* by host .*, pid #{pid}, .*label "import", 0 waiting\n\z/
      )
    end

    it "names the holder even if the server is slow" do
      gate = proxy(shared_redis)
      gate.delay(:reply, 0.05)
      _, errors, = while_held { run_plock(%w[true], env: { "PLOCK_URL" => gate.url }) }
      expect(errors).to match(/ is held since .*label "import"/)
    end

    it "exits silently with 0 with --on-busy skip" do
      output, errors, status = while_held { run_plock("--on-busy", "skip", shell("echo ran")) }
      expect([output, errors, status.exitstatus]).to eq ["", "", 0]
    end

    it "waits in the queue with --wait" do
      holder = discard(store.acquire(key, ttl: 30), :release)
      job = start_plock("run", "--wait", "20", key, "--", "echo", "ran")
      eventually { store.status(key).waiters.any? }
      holder.release
      expect([job.finish.exitstatus, job.said]).to eq [0, ["ran\n", ""]]
    end

    it "gives up at the end of --wait" do
      expect(while_held { run_plock("--wait", "0.2", %w[true]) }.last.exitstatus).to eq 75
    end

    it "ends by a signal while it waits, and leaves the queue" do
      while_held do
        job = start_plock("run", "--wait", "60", key, "--", "true")
        eventually { store.status(key).waiters.any? }
        job.signal(:TERM)
        expect(job.finish.termsig).to eq Signal.list["TERM"]
        eventually { store.status(key).waiters.empty? }
        expect(job.said).to eq ["", ""]
      end
    end
  end

  it "keeps no key with --at-least if it cannot run the command" do
    expect(run_plock("--at-least", "30", %w[no-such-command]).last.exitstatus).to eq 127
    expect(run_plock("--at-least", "30", [__FILE__]).last.exitstatus).to eq 126
    # here, 127 is the exit status of a command that did run, so --at-least keeps the key
    expect(run_plock("--at-least", "30", shell("exit 127")).last.exitstatus).to eq 127
    expect(run_plock(%w[true]).last.exitstatus).to eq 75
  end

  it "keeps the key held with --at-least" do
    expect(run_plock("--at-least", "30", %w[true]).last.exitstatus).to eq 0
    expect(store.status(key).remaining).to be_between(20, 30)
    expect(run_plock(%w[true]).last.exitstatus).to eq 75
  end

  it "renews the lease as long as the command runs" do
    job = start_plock("run", key, "--ttl", "0.3", "--", *shell("echo >&3; read line"), input: true)
    job.line
    started = monotonic
    fence = store.status(key).fence
    eventually { monotonic - started > 1 } # more than three times the ttl
    expect(store.status(key)).to have_attributes(held?: true, fence: fence)
    job.end_input
    expect(job.finish.exitstatus).to eq 1 # the exit status of `read`
  end

  describe "when the lease is lost" do
    it "ends the command and its children by TERM, and exits with 76" do
      script = 'trap "echo told >&3; exit 3" TERM; sh -c "echo \$\$ >&3; exec sleep 60" & wait'
      job = start_plock("run", key, "--", *shell(script))
      grandchild = job.line
      expect(store.break(key)).to be true
      expect(job.line).to eq "told"
      expect(job.finish.exitstatus).to eq 76
      expect_gone(grandchild)
      expect(
        job.said.last
      ).to eq "plock: the lease on #{key.inspect} was lost: the command is ended\n"
    end

    # Returns the writing end of a full pipe, as if the pipe's reader hung. The pipe is set to
    # blocking mode, because plock inherits the mode, and its writes must block.
    def full_pipe
      reader, writer = IO.pipe
      [reader, writer].each { |stream| discard(stream, :close) }
      nil while writer.write_nonblock("x" * 4096, exception: false) != :wait_writable
      writer.nonblock = false
      writer
    end

    [{}, { "PLOCK_LOG" => "info" }].each do |env|
      it "ends the command even if nobody reads its messages#{", and the log" if env.any?}" do
        job =
          start_plock(
            "run", key, "--grace", "0.2", "--",
            *shell('trap "" TERM; echo $$ >&3; while :; do sleep 0.01; done'), err: full_pipe,
            env: env
          )
        pid = job.line
        store.break(key)
        expect_gone(pid)
        expect(job.finish.exitstatus).to eq 76
      end
    end

    it "ends by KILL, after --grace, processes that survive TERM, grandchildren too" do
      job =
        start_plock(
          "run", key, "--grace", "0.2", "--",
          *shell('trap "" TERM; sleep 60 & echo $! >&3; echo $$ >&3; wait; wait')
        )
      family = [job.line, job.line]
      store.break(key)
      expect(job.finish.exitstatus).to eq 76
      expect_gone(*family)
    end

    it "waits for grandchildren that take their time, but no longer than --grace" do
      script = 'sh -c "trap : TERM; echo \$\$ >&3; while :; do sleep 60 & wait; done" & ' \
               'trap "exit 0" TERM; wait'
      job = start_plock("run", key, "--grace", "0.3", "--", *shell(script))
      grandchild = job.line
      store.break(key)
      took = elapsed { expect(job.finish.exitstatus).to eq 76 }
      expect(took).to be > 0.2
      expect_gone(grandchild)
    end

    it "also exits with 76 if it learns of the loss only after the command has ended" do
      job = start_plock("run", key, "--", *shell("echo >&3; read line"), input: true)
      job.line
      # deletes the lock without a message to its holder, as FLUSHALL or an eviction does
      shared_redis.call("DEL", store.status(key).store_key)
      job.tell
      expect(job.finish.exitstatus).to eq 76
      expect(job.said.last).to match(/lost/)
    end

    it "exits with 76 if the store went away meanwhile and stayed away" do
      server = redis_server
      job =
        start_plock(
          "run",
          key,
          "--ttl",
          "0.6",
          "--",
          *shell("echo $$ >&3; exec sleep 60"),
          env: {
            "PLOCK_URL" => server.unix_url
          }
        )
      pid = job.line
      server.kill
      expect(job.finish.exitstatus).to eq 76
      expect_gone(pid)
    end

    it "goes on if the store went away and came back in time" do
      server = redis_server(config: { "appendonly" => "yes", "appendfsync" => "always" })
      command = shell("echo >&3; read line")
      job =
        start_plock(
          "run",
          key,
          "--ttl",
          "20",
          "--",
          *command,
          input: true,
          env: {
            "PLOCK_URL" => server.unix_url
          }
        )
      job.line
      server.kill
      server.restart
      job.tell
      expect(job.finish.exitstatus).to eq 0
      expect(job.said.last).to eq ""
    end
  end

  it "says that it could not release the key, and keeps the status of the command" do
    server = redis_server
    job =
      start_plock(
        "run",
        key,
        "--",
        *shell("echo >&3; read line; exit 5"),
        input: true,
        env: {
          "PLOCK_URL" => server.unix_url
        }
      )
    job.line
    server.kill
    job.tell
    expect(job.finish.exitstatus).to eq 5
    expect(job.said.last).to match(
      /\Aplock: #{Regexp.escape(key.inspect)} could not be released .* free again within 30/
    )
  end

  it "exits with 69 if the store cannot be used" do
    Support::Port.claim do |port|
      output, errors, status =
        run_plock(shell("echo ran"), env: { "PLOCK_URL" => "redis://:sesame@127.0.0.1:#{port}" })
      expect([output, status.exitstatus]).to eq ["", 69]
      expect(errors).to match(/\Aplock: .*Connection refused/).and(
        satisfy { |text| !text.include?("sesame") }
      )
    end
    server = redis_server(:password)
    expect(
      run_plock(%w[true], env: { "PLOCK_URL" => server.url(password: "wrong") }).last.exitstatus
    ).to eq 69
  end

  {
    "no command" => [], "no number" => %w[--ttl soon true], "out of range" => %w[--ttl 0 true],
    "a wait in the past" => %w[--wait=-1 true], "a wait of a life" => %w[--wait 1e9 true],
    "no such action" => %w[--on-busy wait true], "no such option" => %w[--tll 3 true],
    "a label that is too long" => ["--label", "x" * 101, "true"]
  }.each do |what, arguments|
    it "exits with 64 for #{what}, and says where to look" do
      output, errors, status = plock("run", key, *arguments)
      expect([output, status.exitstatus]).to eq ["", 64]
      expect(errors).to match(/\Aplock: .*\nTry 'plock run --help'.\n\z/)
    end
  end

  it "prefers --store to PLOCK_URL" do
    expect(
      run_plock(
        "--store",
        shared_redis.url,
        %w[true],
        env: {
          "PLOCK_URL" => "redis://127.0.0.1:1"
        }
      ).last.exitstatus
    ).to eq 0
  end

  it "excludes an application with the same secret and namespace" do
    namespace = "ns#{SecureRandom.hex(8)}"
    other = open_store(secret: "sixteen bytes and more", namespace: namespace)
    other.acquire(key, ttl: 30) do
      arguments = ["run", "--namespace", namespace, key, "--", "true"]
      expect(
        plock(*arguments, env: { "PLOCK_SECRET" => "sixteen bytes and more" }).last.exitstatus
      ).to eq 75
      expect(plock(*arguments).last.exitstatus).to eq 64 # otherwise, it would lock another key
    end
  end
end
