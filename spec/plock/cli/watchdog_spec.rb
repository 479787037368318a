# frozen_string_literal: true

require "spec_helper"
require "plock/cli/watchdog"
require "support/command_line"

RSpec.describe Plock::CLI::Watchdog do
  include Support::CommandLine

  # Starts a process in a group of its own. It stays a zombie until the example reaps it.
  def sleeper
    pid = Process.spawn("sleep", "60", pgroup: true)
    Support::Supervisor.watch(pid)
    discard(-> { bury(pid) }, :call)
    pid
  end

  def bury(pid)
    Process.kill(:KILL, pid)
    Process.wait(pid)
  rescue Errno::ESRCH
    nil # the process was killed and reaped
  end

  # Starts a process group, and a child that guards the group with a watchdog. The child then runs
  # the block, which ends the child in the way that the example tests.
  def guarded(holding: nil)
    group = sleeper
    guard = child do |parent|
      dog = described_class.new(holding: holding&.fileno)
      dog.guard(group)
      parent.tell(dog.pid)
      yield dog, parent.hear
    end
    dog = guard.hear
    guard.tell(:go)
    [group, dog, guard]
  end

  def killed?(pid) = eventually { Process.wait2(pid, Process::WNOHANG) }.last.termsig == 9

  it "kills the group when its process is killed, and is gone" do
    group, dog, = guarded { Process.kill(:KILL, Process.pid) }
    expect(killed?(group)).to be true
    expect_gone(dog)
  end

  # When plock replaces its watchdog, it starts the new one with the group. If plock is killed
  # before it writes anything to the new watchdog, that watchdog must still kill the group.
  it "kills the group that it was started with, even if it was told nothing" do
    group = sleeper
    ears, mouth = IO.pipe
    dog = Plock::Processes.start_watchdog(ears.fileno, nil, group)
    [ears, mouth].each(&:close)
    expect(killed?(group)).to be true
    Process.wait(dog)
  end

  it "kills the group when its process ends without a word" do
    group, = guarded { exit!(0) }
    expect(killed?(group)).to be true
  end

  it "leaves the group alone when it is told that all is well" do
    group, dog, guard = guarded { |watchdog| watchdog.release || watchdog.finish }
    guard.wait
    expect_gone(dog)
    expect(running?(group)).to be true
  end

  it "ignores signals" do
    group, dog, guard = guarded do |watchdog, _|
      %w[HUP INT QUIT TERM USR1 TSTP].each { |name| Process.kill(name, watchdog.pid) }
      watchdog.release
      watchdog.finish # waits until it ends by itself
      $?.exitstatus
    end
    expect(guard.result).to eq 0
    expect([running?(dog), running?(group)]).to eq [false, true]
  end

  it "has nothing open but its pipe, and leads a session of its own" do
    skip "/proc shows it" unless Support::Inventory.available?
    watchdog = described_class.new
    expect(
      eventually { (open = Support::Inventory.descriptors(watchdog.pid)).size == 1 && open }
    ).to match [/\Apipe:/]
    expect(Process.getsid(watchdog.pid)).to eq watchdog.pid
    expect(File.readlink("/proc/#{watchdog.pid}/cwd")).to eq "/"
    watchdog.finish
  end

  describe "keeps a descriptor open" do
    let(:path) { File.join(Support::Supervisor.folder, unique_key.tr(":", "-")) }

    def locked? = !File.open(path, "a") { |file| file.flock(File::LOCK_EX | File::LOCK_NB) }

    # The process that guards the group is killed while it holds the lock.
    def guarded_with_lock
      file = File.open(path, "w")
      group, dog, guard = guarded(holding: file) do
        file.flock(File::LOCK_EX)
        Process.kill(:KILL, Process.pid)
      end
      file.close
      guard.wait
      [group, dog]
    end

    it "until the last process of the group is dead, reaped or not" do
      group, dog = guarded_with_lock
      eventually { !locked? }
      expect(running?(group)).to be false
      expect_gone(dog)
      Process.wait(group)
    end

    it "as long as a process lives that changed its user, so that it may not kill it" do
      skip "only root can become another user" unless Process.uid.zero?
      group = sleeper
      file = File.open(path, "w")
      guard = child do |parent|
        file.flock(File::LOCK_EX)
        Process::UID.change_privilege(65_534)
        dog = described_class.new(holding: file.fileno)
        dog.guard(group)
        parent.tell(dog.pid)
        parent.hear
        Process.kill(:KILL, Process.pid)
      end
      dog = guard.hear
      file.close
      guard.tell(:go)
      guard.wait
      await_looks(dog)
      expect([running?(group), locked?]).to eq [true, true]
      bury(group)
      eventually { !locked? }
      expect_gone(dog)
    end

    # Waits until the watchdog has gone to sleep twice. Between the two sleeps, it has checked
    # whether processes of the group still live.
    def await_looks(dog)
      2.times do
        slept = File.read("/proc/#{dog}/status")[/^voluntary_ctxt_switches:\s+(\d+)/, 1]
        eventually do
          File.read("/proc/#{dog}/status")[/^voluntary_ctxt_switches:\s+(\d+)/, 1] != slept
        end
      end
    end
  end

  it "has a name of its own in every listing of processes" do
    skip "/proc shows it" unless Support::Inventory.available?
    watchdog = described_class.new
    eventually { File.read("/proc/#{watchdog.pid}/comm") == "lease-watchdog\n" }
    eventually { File.read("/proc/#{watchdog.pid}/cmdline").delete("\0") == "lease-watchdog" }
    expect(File.read("/proc/self/cmdline").delete("\0")).not_to eq "lease-watchdog"
    watchdog.finish
  end

  it "is started again if it was killed, and knows the same as the first" do
    group, = guarded do |watchdog|
      first = watchdog.pid
      Process.kill(:KILL, first)
      watchdog.keep_alive until watchdog.pid != first
      Process.kill(:KILL, Process.pid)
    end
    expect(killed?(group)).to be true
  end
end
