# frozen_string_literal: true

require "spec_helper"
require "plock/cli/job"
require "support/command_line"

# How plock, its watchdog and its command react to signals and to each other's deaths, and which
# processes remain afterwards.
RSpec.describe "plock run and its processes", needs: "redis-server" do
  include Support::CommandLine

  let(:key) { lock_name }
  let(:store) { open_store }

  def shell(script) = ["sh", "-c", script]

  def start(script, **options) = start_plock("run", key, "--", *shell(script), **options)

  # The children of a process.
  def children_of(pid)
    Dir.glob("/proc/[0-9]*/stat").filter_map do |file|
      text = File.read(file)
      text.to_i if text[/\) \S (\d+)/, 1].to_i == pid && !text.match?(/\) [ZX] /)
    rescue Errno::ENOENT, Errno::ESRCH
      nil
    end
  end

  # Waits, because the watchdog sets its name a moment after its start.
  def watchdog_of(job) =
    eventually { children_of(job.pid).find { |pid| name_of(pid) == "lease-watchdog\n" } }

  def name_of(pid)
    File.read("/proc/#{pid}/comm")
  rescue Errno::ENOENT, Errno::ESRCH
    nil
  end

  describe "signals" do
    %w[HUP INT QUIT TERM USR1 USR2].each do |name|
      it "passes #{name} on to the command" do
        job =
          start(
            "trap 'echo heard >&3; exit 7' #{name}; echo ready >&3; while :; do sleep 0.01; done"
          )
        job.line
        job.signal(name)
        expect(job.line).to eq "heard"
        expect(job.finish.exitstatus).to eq 7
        expect(store.status(key)).not_to be_held
      end
    end

    # If TTIN stopped plock, plock could not renew the lease, but the command would still run.
    it "is not stopped by TTIN, which it passes on to the command" do
      job =
        start_plock(
          "run", key, "--ttl", "0.5", "--",
          *shell("trap 'echo heard >&3' TTIN; echo ready >&3; until read line; do :; done; exit 3"),
          input: true
        )
      job.line
      fence = store.status(key).fence
      started = monotonic
      job.signal(:TTIN)
      expect(job.line).to eq "heard"
      eventually { monotonic - started > 1 } # twice the ttl
      expect(store.status(key)).to have_attributes(held?: true, fence: fence)
      job.tell
      expect(job.finish.exitstatus).to eq 3
    end

    it "passes them on to the children of the command" do
      job = start("sh -c 'echo $$ >&3; exec sleep 60'; echo ended >&3")
      child = job.line
      job.signal(:TERM)
      expect(job.finish.exitstatus).to eq 143
      expect_gone(child)
      expect(job.line).to be_nil
    end

    it "stays alive as long as the command does, and holds the key" do
      job =
        start(
          "trap 'echo heard >&3' TERM; echo ready >&3; until read line; do :; done; exit 3",
          input: true
        )
      job.line
      2.times do
        job.signal(:TERM)
        expect([job.line, store.status(key).held?]).to eq ["heard", true]
      end
      job.tell
      expect(job.finish.exitstatus).to eq 3
    end

    it "leaves ignored signals ignored, as under nohup" do
      program = "trap '' HUP; exec \"$@\""
      arguments = [
        *Support::CommandLine::PROGRAM, "run", key, "--",
        *shell("echo $$ >&3; kill -HUP $$; read line; exit 4")
      ]
      command = ["sh", "-c", program, "sh", *arguments]
      job =
        discard(
          Support::CommandLine::Running.new(command, plock_environment({}), {}, input: true), :close
        )
      job.line
      job.signal(:HUP)
      job.tell
      expect(job.finish.exitstatus).to eq 4
    end

    it "ends a stopped command when the lease is lost" do
      job = start("echo $$ >&3; exec sleep 60")
      pid = Integer(job.line)
      Process.kill(:STOP, pid)
      eventually { File.read("/proc/#{pid}/stat").include?(") T ") }
      store.break(key)
      expect(job.finish(within: 5).exitstatus).to eq 76 # KILL would follow TERM only after 10 s
    end

    it "does not begin the command after it was itself stopped for too long before" do
      path = File.join(Support::Supervisor.folder, "job-#{SecureRandom.hex(6)}")
      ended =
        in_child do
          trap("TERM", "IGNORE")
          job =
            Plock::CLI::Job.new(
              shell("echo ran >#{path}"), {}, lease: Struct.new(:valid?).new(false),
              bell: Plock::CLI::Bell.new, grace: 5.0
            )
          told = 0
          job.run { told += 1 }
          [job.lost?, told]
        end
      expect(ended).to eq [true, 1]
      expect(File.exist?(path)).to be false
    end

    it "ends the command after it was itself stopped for longer than the lease lasts" do
      job =
        start_plock(
          "run", key, "--ttl", "0.3", "--grace", "5", "--", *shell("echo $$ >&3; exec sleep 60")
        )
      pid = job.line
      job.signal(:STOP)
      eventually { !store.status(key).held? }
      store.acquire(key, ttl: 30) do
        job.signal(:CONT)
        expect(job.finish.exitstatus).to eq 76
        expect_gone(pid)
      end
    end
  end

  describe "deaths" do
    script = "sh -c 'echo $$ >&3; exec sleep 60' & sleep 60 & echo $! >&3; echo $$ >&3; wait"

    it "kills the command and all its descendants at once when plock is killed", :timing do
      job = start(script)
      family = Array.new(3) { job.line }
      dog = watchdog_of(job)
      job.signal(:KILL)
      job.finish
      took = elapsed { expect_gone(*family) }
      expect(took).to be < 1
      expect_gone(dog)
      expect(job.line).to be_nil # no process has the descriptor open any more
    end

    it "kills them, too, when plock and the command are killed" do
      job = start(script)
      family = Array.new(3) { job.line }
      Process.kill(:KILL, job.pid, Integer(family.last))
      job.finish
      expect_gone(*family)
    end

    it "treats a killed command as one that has ended" do
      job = start("echo $$ >&3; exec sleep 60")
      Process.kill(:KILL, Integer(job.line))
      expect(job.finish.exitstatus).to eq 137
      expect(store.status(key)).not_to be_held
    end

    it "replaces a watchdog that is killed" do
      job = start(script)
      family = Array.new(3) { job.line }
      dog = watchdog_of(job)
      Process.kill(:KILL, dog)
      eventually { (other = watchdog_of(job)) && other != dog }
      job.signal(:KILL)
      job.finish
      expect_gone(*family)
    end

    it "kills the command even if plock and its watchdog are killed together" do
      job = start("echo $$ >&3; exec sleep 60")
      pid = job.line
      Process.kill(:KILL, watchdog_of(job), job.pid)
      job.finish
      expect_gone(pid)
    end

    it "leaves no watchdog and no zombie behind when the command ends" do
      job = start("echo $PPID >&3; read line", input: true)
      job.line
      dog = watchdog_of(job)
      job.tell
      job.finish
      expect(running?(dog)).to be false
      expect(File.exist?("/proc/#{dog}")).to be false # the watchdog was reaped
    end

    it "leaves nothing behind, at whatever moment of its start plock is killed", :slow do
      20.times do
        job = start("echo $$ >&3; exec sleep 60")
        eventually { children_of(job.pid).any? || job.told.wait_readable(0) }
        job.signal(:KILL)
        job.finish
        said = job.told.read.lines(chomp: true) # ends when all processes are gone
        expect_gone(said.last) if said.any?
        shared_redis.call("DEL", store.status(key).store_key)
      end
    end

    it "leaves alone processes that outlive the command" do
      job = start("sleep 60 >/dev/null 2>&1 3>&- & echo $! >&3; exit 0")
      left = Integer(job.line)
      expect(job.finish.exitstatus).to eq 0
      expect(running?(left)).to be true
      expect(store.status(key)).not_to be_held
    ensure
      Process.kill(:KILL, left) if left
    end

    it "does not hold up a reader of the command's output" do
      job = start("echo out; echo err >&2")
      expect(job.said(within: 5)).to eq %W[out\n err\n]
      expect(job.finish.exitstatus).to eq 0
    end
  end

  describe "poor surroundings" do
    it "runs under env -i, as cron does, without HOME, TERM and a terminal" do
      env =
        ENV
          .keys
          .to_h { |name| [name, nil] }
          .merge("PLOCK_URL" => shared_redis.unix_url, "PATH" => "/usr/bin:/bin")
      command = shell("echo $PLOCK_KEY; env | grep -c '^HOME='")
      output, errors, status =
        plock("run", "--label", "Übernacht", key, "--", *command, env: env, unsetenv_others: true)
      expect([output, errors, status.exitstatus]).to eq ["#{key}\n0\n", "", 1]
    end

    it "runs with closed standard streams" do
      job = start("echo $$ >&3", in: :close, out: :close, err: :close)
      expect(job.line).to match(/\A\d+\z/)
      expect(job.finish.exitstatus).to eq 0
    end

    it "runs in a folder that no longer exists, and in one that it may not read" do
      Dir.mktmpdir { |folder| @gone = folder }
      Dir.mkdir(@gone)
      job = start("echo here >&3", chdir: @gone)
      Dir.rmdir(@gone)
      expect([job.line, job.finish.exitstatus]).to eq ["here", 0]
    end
  end
end
