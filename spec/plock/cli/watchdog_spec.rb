# frozen_string_literal: true

require "spec_helper"
require "plock/cli/watchdog"
require "support/command_line"

RSpec.describe Plock::CLI::Watchdog do
  include Support::CommandLine

  # A process group of one, which is not this example's to wait for before it says so.
  def sleeper
    pid = Process.spawn("sleep", "60", pgroup: true)
    Support::Backstage.watch(pid)
    discard(-> { bury(pid) }, :call)
    pid
  end

  def bury(pid)
    Process.kill(:KILL, pid)
    Process.wait(pid)
  rescue Errno::ESRCH
    nil # it was killed, and waited for
  end

  # Who is guarded by a child of this process, which is then ended in the way of the block.
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

  # As it happens to one that takes another's place: who started it may be killed before it could write.
  it "kills the group that it was started with, though nothing was told" do
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

  it "hears of no signal" do
    group, dog, guard = guarded do |watchdog, _|
      %w[HUP INT QUIT TERM USR1 TSTP].each { |name| Process.kill(name, watchdog.pid) }
      watchdog.release
      watchdog.finish # waits for it: it ends of itself
      $?.exitstatus
    end
    expect(guard.result).to eq 0
    expect([running?(dog), running?(group)]).to eq [false, true]
  end

  it "has nothing open but its pipe, and leads a session of its own" do
    skip "/proc shows it" unless Support::Inventory.available?
    watchdog = described_class.new
    expect(eventually { (open = Support::Inventory.descriptors(watchdog.pid)).size == 1 && open }).to match [/\Apipe:/]
    expect(Process.getsid(watchdog.pid)).to eq watchdog.pid
    expect(File.readlink("/proc/#{watchdog.pid}/cwd")).to eq "/"
    watchdog.finish
  end

  it "holds on to a descriptor until the last one of the group is gone" do
    file = File.open(File.join(Support::Backstage.folder, unique_key.tr(":", "-")), "w")
    group, dog, guard = guarded(holding: file) do
      file.flock(File::LOCK_EX)
      Process.kill(:KILL, Process.pid)
    end
    file.close
    guard.wait
    eventually { !running?(group) } # dead, but this process has not waited for it
    expect(File.open(file.path) { |other| other.flock(File::LOCK_EX | File::LOCK_NB) }).to be false
    Process.wait(group)
    File.open(file.path) { |other| eventually { other.flock(File::LOCK_EX | File::LOCK_NB) } }
    expect_gone(dog)
  end

  it "is started again where it was killed, and knows what the first one knew" do
    group, = guarded do |watchdog|
      first = watchdog.pid
      Process.kill(:KILL, first)
      watchdog.keep_alive until watchdog.pid != first
      Process.kill(:KILL, Process.pid)
    end
    expect(killed?(group)).to be true
  end
end
