# frozen_string_literal: true

require "spec_helper"
require "fileutils"
require "open3"
require "tmpdir"

# Several containers use the same folder. Each container has its own process ids, and may give the
# same user a different number.
RSpec.describe "A local store in several namespaces" do
  let!(:path) do
    folder = Dir.mktmpdir("plock-local-")
    discard(-> { FileUtils.remove_entry(folder) }, :call)
    "#{folder}/locks"
  end
  let(:store) { open_store("local:#{path}") }

  def namespaces(*options)
    command = ["unshare", *options]
    unless system(*command, "true", %i[out err] => File::NULL)
      skip "#{command.join(" ")} is not available"
    end
    command
  rescue Errno::ENOENT
    skip "unshare is not installed"
  end

  # Runs a Ruby program in a namespace. The program reports when it is ready, and ends when the
  # example tells it to. Its last output is the result.
  def inside(command, program)
    environment = { "RUBYOPT" => nil, "RUBYLIB" => $LOAD_PATH.join(":") }
    start = [
      environment, *command, RbConfig.ruby, "-e",
      "$stdout.sync = true; require 'plock'\n#{program}", "local:#{path}"
    ]
    input, output, process = Open3.popen2(*start, pgroup: true)
    Support::Supervisor.watch(process.pid)
    discard(-> { [input, output].each(&:close) }, :call)
    expect(output.gets).to eq "ready\n"
    [input, output, process]
  end

  # How many times the threads of this process have been woken.
  def wakeups =
    Dir
      .glob("/proc/self/task/*/status")
      .sum { |file| File.read(file)[/^voluntary_ctxt_switches:\s+(\d+)/, 1].to_i }

  it "excludes processes of another namespace, and notices their death at once", :timing do
    command = namespaces("--pid", "--fork", "--kill-child")
    _, _, process =
      inside(command, 'Plock::Store.open(ARGV[0]).acquire("k") { puts "ready"; $stdin.read }')
    waiter = background { store.acquire("k", wait: 20) { Plock::Clock.now } }
    eventually { store.status("k").waiters.any? }
    died_at = Plock::Clock.now
    Process.kill(:KILL, -process.pid)
    expect(waiter.value - died_at).to be < 0.5
  end

  it "does not poll for their death" do
    skip "/proc shows it" unless Support::Inventory.available?
    skip "here nothing tells of a death in another namespace" unless store.liveness
    input, =
      inside(
        namespaces("--pid", "--fork", "--kill-child"),
        'Plock::Store.open(ARGV[0]).acquire("k") { puts "ready"; $stdin.read }'
      )
    waiter = background { store.acquire("k", wait: 20) { :entered } }
    eventually { store.status("k").waiters.any? }
    await_sleep(waiter)
    before = wakeups
    sleep 1
    expect(wakeups - before).to be < 60 # it was 250 before a fix
    input.close
    expect(waiter.value).to be :entered
  end

  it "is the same store for a user with another number there" do
    command = namespaces("--user", "--map-user=1000", "--map-group=1000")
    lease = store.acquire("k", ttl: 60)
    input, output, = inside(command, <<~RUBY)
      store = Plock::Store.open(ARGV[0])
      tried = [store.try_acquire("k") { :entered }]
      puts "ready"
      $stdin.read
      held = store.acquire("k", wait: 10) do |lease|
        sleep(0.02) && store.try_acquire("l") { lease.valid? }
      end
      puts [*tried, held, Process.uid].inspect
    RUBY
    sleep 0.02 # after this time, each process checks the file again
    expect(lease).to be_valid
    lease.release
    input.close
    expect(output.read).to eq "[nil, true, 1000]\n"
    expect(store.acquire("k") { :entered }).to be :entered
  end
end
