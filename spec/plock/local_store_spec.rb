# frozen_string_literal: true

require "spec_helper"
require "fileutils"
require "parse/lock"
require "tmpdir"

RSpec.describe Plock::LocalStore do
  let(:folder) do
    Dir
      .mktmpdir("plock-local-")
      .tap { |path| discard(-> { FileUtils.remove_entry(path) if File.exist?(path) }, :call) }
  end
  let(:path) { "#{folder}/locks" }
  let(:store) { open_store("local:#{path}") }
  let(:long) { 600 } # seconds, so that no lease expires during an example

  def local(path, **options) = Plock::Store.open("local:#{path}", **options)

  # @return [Array<Plock::Error>] the errors of fibers that run at the same time
  def in_fibers(count)
    Sync do |task|
      Array.new(count) {
        task.async do
          yield
        rescue Plock::Error => e
          e
        end
      }.map(&:wait)
    end
  end

  # Starts a process that holds the key until it is killed.
  def holding(key, store = self.store, **options)
    ready, told = IO.pipe
    process = fork do
      lease = store.acquire(key, ttl: 30, **options)
      told.write("x")
      sleep
      lease.release # keeps a reference, so that the lease is not garbage-collected
    end
    Support::Supervisor.watch(process)
    ready.read(1)
    process
  end

  # Runs the block in a child, and then kills the child. Under valgrind, a child that kills itself
  # may need half a minute until it is dead.
  def in_killed_process
    done, tell = IO.pipe
    process = fork do
      kept = yield
      tell.write("x")
      sleep
      kept.inspect # keeps references, so that the leases are not garbage-collected
    end
    Support::Supervisor.watch(process)
    tell.close
    expect(done.read(1)).to eq("x")
    kill(process)
  end

  def kill(process)
    Process.kill(:KILL, process)
    Process.wait(process)
    Support::Supervisor.forget(process)
  end

  describe "Plock::Store.open" do
    it "makes the file and its folder, and lets no other user read them" do
      made = discard(local("#{folder}/deeper/locks"), :close)
      expect(made).to be_a(described_class)
      expect([File.stat(made.path).mode & 0o777, File.stat("#{folder}/deeper").mode & 0o777]).to eq(
        [0o600, 0o700]
      )
      expect(made.url).to eq("local:#{folder}/deeper/locks")
      expect(made).to have_attributes(
        unverified?: false, closed?: false, inspect: "#<Plock::LocalStore #{made.url}>"
      )
    end

    it "has a default path below XDG_RUNTIME_DIR, else in a folder of the user in TMPDIR" do
      program = 'require "plock"; puts Plock::Store.open("local:").path'
      FileUtils.mkdir_p("#{folder}/run")
      output, = ruby(program, env: { "XDG_RUNTIME_DIR" => "#{folder}/run" })
      expect(output).to eq("#{folder}/run/plock/locks\n")
      File.chmod(0o777, "#{folder}/run") # now other users can write to the folder
      output, = ruby(program, env: { "XDG_RUNTIME_DIR" => "#{folder}/run", "TMPDIR" => folder })
      expect(output).to eq("#{folder}/plock-#{Process.euid}/locks\n")
      output, = ruby(program, env: { "XDG_RUNTIME_DIR" => nil, "TMPDIR" => folder })
      expect(output).to eq("#{folder}/plock-#{Process.euid}/locks\n")
      output, =
        ruby(
          program,
          env: {
            "XDG_RUNTIME_DIR" => "#{folder}/missing", "TMPDIR" => "#{folder}/missing too"
          }
        )
      # If other users can write to /tmp, the output is an error that names the path.
      expect(output).to include("/tmp/plock-#{Process.euid}/locks")
    end

    it "lets other threads run while another process is making the file" do
      making = File.open("#{folder}/made.lock", File::RDWR | File::CREAT, 0o600)
      making.flock(File::LOCK_EX)
      opening = await_sleep(background { local("#{folder}/made").acquire("k") { :entered } })
      making.close
      expect(opening.value).to be(:entered)
    end

    # Another process may be stopped while it makes the file that replaces a removed one.
    it "lets other threads run, and can be interrupted, while its file is being made again" do
      store.acquire("k") { nil }
      making = File.open("#{path}.lock", File::RDWR)
      making.flock(File::LOCK_EX)
      File.unlink(path)
      sleep(0.02) # for some milliseconds, a caller may still enter through the old file
      calls = [
        -> { store.acquire("a") { :done } }, -> { store.try_acquire("b") { :done } },
        -> { store.acquire_all(%w[c d]) { :done } }, -> { store.status("e") && :done },
        -> { store.each_lock.to_a && :done }, -> { store.break("f") || :done },
        -> { store.lock_release("g", "me") || :done }
      ]
      threads = calls.map { |call| await_sleep(background(&call)) }
      interrupted = await_sleep(background { store.acquire("m", wait: 60) })
      expect(interrupted.kill.join(5)).to be(interrupted)
      making.close
      expect(threads.map(&:value)).to all be(:done)
    end

    it "fails after a second, or after wait:, if another process is stopped while it makes the " \
       "file again", :timing, :fibers do
      store.acquire("k") { nil }
      making = File.open("#{path}.lock", File::RDWR)
      making.flock(File::LOCK_EX)
      File.unlink(path)
      sleep(0.02) # for some milliseconds, a caller may still enter through the old file
      in_a_second = [
        -> { store.acquire("k", wait: 0.1) }, -> { store.acquire("k", wait: 0.1) },
        -> { store.acquire_all(%w[k l], wait: 0.1) }, -> { store.status("k") },
        -> { raise(in_fibers(3) { store.status("k") }.fetch(2)) }
      ]
      with_wait = [
        -> { store.acquire("k", wait: 1.5) }, -> { store.acquire_all(%w[k l], wait: 1.5) {} },
        -> { store.acquire_all(%w[k l], wait: 1.5, label: "x") }
      ]
      threads = (in_a_second + with_wait).map do |call|
        background do
          began_at = monotonic
          expect(&call).to raise_error(Plock::UnavailableError, /has been opening it/)
          monotonic - began_at
        end
      end
      expect(threads.first(in_a_second.size).map(&:value)).to all be_between(1.0, 1.2)
      expect(threads.last(with_wait.size).map(&:value)).to all be_between(1.5, 1.7)
      making.close
      expect(store.acquire("k") { :done }).to be(:done)
    end

    it "accepts percent-encoding, and the number of keys that the file has room for" do
      odd = discard(Plock::Store.open("local:#{folder}/a%20file%3f?keys=16"), :close)
      expect(odd.path).to eq("#{folder}/a file?")
      leases = Array.new(16) { |number| odd.acquire("k#{number}") }
      expect { odd.acquire("one more", wait: 0) }.to raise_error(
        Plock::StoreFullError, /16 keys/
      ) { |error| expect(error.code).to be(:store_full) }
      leases.pop.release
      expect(odd.acquire("one more") { :entered }).to be(:entered)
      expect { local("#{folder}/a%20file%3f", keys: 32) }.to raise_error(
        Plock::ConfigurationError, /another number of keys/
      )
      expect(discard(local("#{folder}/other", keys: 32), :close)).to be_a(described_class)
      leases.each(&:release)
    end

    {
      "local:relative" => /absolute/, "local:/tmp/x?ttl=5" => /option/,
      "local:/tmp/x?keys=many" => /keys/, "local:/tmp/x?keys=5" => /keys/,
      "local:/tmp/a%00b" => /NUL/, "local:/" => /absolute/
    }.each do |url, message|
      it "refuses #{url}" do
        expect { Plock::Store.open(url) }.to raise_error(Plock::ConfigurationError, message)
      end
    end

    it "refuses options of stores on a server" do
      expect { local(path, pool_size: 3) }.to raise_error(Plock::ConfigurationError, /pool_size/)
      expect { local(path, nonsense: 3) }.to raise_error(ArgumentError, /nonsense/)
      expect { Plock::Store.open("redis://localhost", keys: 3) }.to raise_error(
        ArgumentError, /keys/
      )
    end

    it "accepts namespace, secret, ttl and wait" do
      other =
        discard(local(path, namespace: "billing", secret: "s" * 16, ttl: 3, wait: 0.01), :close)
      other.acquire("k") do |lease|
        expect([lease.ttl, lease.store_key]).to eq(
          [3.0, Plock.store_key("plock:v1:billing:", "k", "s" * 16)]
        )
        expect(store.each_lock.to_a).to be_empty
        expect(other.each_lock.map(&:store_key)).to eq([lease.store_key])
      end
    end
  end

  describe "an unsafe file or folder" do
    it "is refused if it is a symbolic link" do
      FileUtils.touch("#{folder}/elsewhere")
      File.symlink("#{folder}/elsewhere", path)
      expect { store }.to raise_error(Plock::ConfigurationError, /symbolic link/)
      Dir.mkdir("#{folder}/real", 0o700)
      File.symlink("#{folder}/real", "#{folder}/link")
      expect { local("#{folder}/link/locks") }.to raise_error(
        Plock::ConfigurationError, /symbolic link/
      )
    end

    it "is refused if other users can write to it" do
      store.close
      File.chmod(0o620, path)
      expect { local(path) }.to raise_error(Plock::ConfigurationError, /others can write/)
      File.chmod(0o600, path)
      [0o770, 0o707, 0o1777].each do |mode|
        File.chmod(mode, folder)
        expect { local(path) }.to raise_error(
          Plock::ConfigurationError, /others can write to the folder/
        )
      end
    ensure
      File.chmod(0o700, folder)
    end

    it "is refused if another user owns it" do
      skip "only root can give files away" unless Process.euid.zero?
      store.close
      File.chown(65_534, nil, path)
      expect { local(path) }.to raise_error(Plock::ConfigurationError, /another user/)
      File.chown(0, nil, path)
      File.chown(65_534, nil, folder)
      expect { local(path) }.to raise_error(
        Plock::ConfigurationError, /folder belongs to another user/
      )
    ensure
      File.chown(Process.euid, nil, folder)
    end

    it "is refused if it is not a file, or not in a folder" do
      Dir.mkdir(path)
      expect { store }.to raise_error(Plock::ConfigurationError)
      expect { local("#{folder}/missing/deeper/locks") }.to raise_error(
        Plock::ConfigurationError, /making its folder/
      )
      File.write("#{folder}/plain", "")
      expect { local("#{folder}/plain/locks") }.to raise_error(Plock::ConfigurationError)
    end
  end

  describe "a holder that dies" do
    it "passes its lock on at once", :timing do
      process = holding("k")
      expect(store.try_acquire("k")).to be_nil
      waiter =
        background do
          store.acquire("k", wait: 20) { Process.clock_gettime(Process::CLOCK_MONOTONIC) }
        end
      eventually { store.status("k").waiters.size == 1 }
      killed = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      kill(process)
      expect(waiter.value - killed).to be < 0.5
      expect(store.status("k")).not_to be_held
    end

    it "keeps the promises of at_least: and once, and the leases that it handed over",
       :many_children do
      store
      in_killed_process do
        store.try_acquire("a", at_least: long)
        inside = Thread::Queue.new
        Thread.new { store.once("b", within: long) { (inside << true) && sleep } }
        inside.pop
        store.acquire("c", ttl: long).dump
      end
      expect(%w[a c].map { |key| store.status(key).held? }).to eq([true, true])
      expect(store.once("b", within: long) { nil }).not_to be_ran
    end

    it "says when a key is free whose holder has died before the end of at_least:" do
      store
      in_killed_process { store.try_acquire("a", at_least: long, ttl: 2 * long) }
      expect(store.status("a").remaining).to be_between(1, long)
    end

    # Returns for each kind of lock whether it is still held after the process that adopted it was
    # killed.
    def held_after_adoption(**options)
      permits, readers, writer =
        store.semaphore("s", permits: 3),
        *%w[r w].map { |key| store.read_write_lock(key) }
      dumps = [
        store.acquire("a", **options), permits.acquire(**options), readers.read(**options),
        writer.write(**options)
      ].map(&:dump)
      dumps.concat(store.acquire_all(%w[b c], **options) { |leases| leases.map(&:dump) })
      in_killed_process { dumps.map { |dump| store.adopt(dump) } }
      [
        *%w[a b c].map { |key| store.status(key) }, permits.status, readers.status, writer.status
      ].map(&:held?)
    end

    it "frees the lease that it had adopted" do
      expect(held_after_adoption(ttl: long)).to eq([false] * 6)
    end

    it "keeps the promises of at_least: and once for a lease that it had adopted, too" do
      expect(held_after_adoption(at_least: long)).to eq([true] * 6)
      dump = nil
      store.once("o", within: long) { |lease| dump = lease.dump }
      in_killed_process { store.adopt(dump).tap(&:check!) }
      expect(store.once("o", within: long) { nil }).not_to be_ran
    end

    it "frees its shares" do
      store
      in_killed_process { Array.new(2) { store.semaphore("s", permits: 3).acquire } }
      leases = Array.new(3) { store.semaphore("s", permits: 3).try_acquire }
      expect(leases.map(&:release)).to eq([true] * 3)
    end
  end

  it "tells a holder in another process at once that its lease was broken" do
    told, tell = IO.pipe
    store
    process = fork do
      store.acquire(
        "k", ttl: 30, on_lost: ->(lease) { tell.write("lost #{lease.lost?}") && tell.close }
      ) { sleep }
    end
    Support::Supervisor.watch(process)
    tell.close
    eventually { store.status("k").held? }
    expect(store.break("k")).to be(true)
    expect(told.wait_readable(10) && told.read).to eq("lost true")
    kill(process)
  end

  it "releases the others of several keys if the release of one fails" do
    heard = warnings do
      store.acquire_all(%w[a b c], label: "all") do |leases|
        leases.first.hold.define_singleton_method(:release) do |_keep|
          raise Plock::UnavailableError.new("away", code: :connect)
        end
      end
    end
    expect(heard).to match([/could not be released .*away/])
    expect(%w[a b c].map { |key| store.status(key).held? }).to eq([true, false, false])
    store.break("a")
  end

  it "can be used again after it was closed" do
    store.acquire("k") { nil }
    store.close
    expect(store).to be_closed
    expect(store.acquire("k") { store.closed? }).to be(false)
  end

  describe "a file that" do
    it "was removed is noticed and made again" do
      store.acquire("k") { nil }
      File.unlink(path)
      told =
        warnings { expect(eventually { store.try_acquire("k") { File.exist?(path) } }).to be(true) }
      # In the first milliseconds after the removal, a caller may still enter through the old file.
      # Such a caller causes this warning.
      expect(told).to all(match(/is lost before its block ended/))
      expect(discard(local(path), :close).try_acquire("k") { :entered }).to be(:entered)
    end

    it "was truncated or overwritten is made again, with a warning, if no process uses it" do
      [
        ->(file) { File.truncate(file, 0) }, ->(file) { File.truncate(file, 100_000) },
        ->(file) { File.write(file, "x" * 5000, 0) }
      ].each do |harm|
        _, status =
          ruby('require "plock"; Plock::Store.open(ARGV[0]).acquire("k") { nil }', "local:#{path}")
        expect(status).to be_success
        harm.call(path)
        output, status =
          ruby(
            'require "plock"; Plock::Store.open(ARGV[0]).acquire("k") { puts "entered" }',
            "local:#{path}"
          )
        expect([output, status.success?]).to match(
          [/was created again, because it.* was .*\nentered/m, true]
        )
      end
    end

    it "was damaged is not made again as long as a process uses it" do
      process = holding("k")
      # A running process would notice the damage within half a second, and release the lost
      # lease.
      Process.kill(:STOP, process)
      Process.wait(process, Process::WUNTRACED)
      File.write(path, "x" * 64, 0)
      output, =
        ruby(
          'require "plock"; begin; Plock::Store.open(ARGV[0]); ' \
          "rescue Plock::Error => e; puts e.class, e.message; end",
          "local:#{path}"
        )
      expect(output).to match(/ProtocolError.*written over, and other processes use it/m)
      kill(process)
      store.close
      output, =
        ruby(
          'require "plock"; Plock::Store.open(ARGV[0]).acquire("k") { puts "entered" }',
          "local:#{path}"
        )
      expect(output).to match(/was created again.*entered/m)
    end
  end

  it "serves Parse::Lock if the application configures it so" do
    Parse.synchronize_create_store = store
    Parse.synchronize_create_secret = "s" * 16
    token = nil
    Parse::Lock.acquire("k", ttl: 60, wait: 1) do |given|
      token = given
      expect { Parse::Lock.acquire("k", wait: 0) { raise "entered" } }.to raise_error(
        Parse::Lock::TimeoutError
      )
      expect(
        in_child do

          Parse::Lock.acquire("k", wait: 0.01) { :entered }
        rescue StandardError
          :refused

        end
      ).to be(:refused)
    end
    expect(token).to match(/\A\h{8}-/)
    Parse.synchronize_create_store = "local:#{path}"
    expect(
      Parse::Lock.acquire("k", ttl: 60) do
        in_child do
          store.lock_acquire(Plock.store_key("parse-stack:lock:v1:", "k", "s" * 16), "me", 5)
        end
      end
    ).to be(false)
    expect(Parse::LockBackend.degraded_store?("local:#{path}")).to be(false)
  ensure
    Parse.synchronize_create_store = Parse.synchronize_create_secret = nil
    Parse::LockBackend.reset!
  end

  it "locks and unlocks for a named owner" do
    expect(store.lock_acquire("raw", "me", 5)).to be(true)
    expect(store.lock_acquire("raw", "you", 5)).to be(false)
    expect(
      [
        store.lock_release("raw", "you"), store.lock_release("raw", "me"),
        store.lock_release("raw", "me")
      ]
    ).to eq([false, true, false])
    expect { store.lock_acquire("raw", "", 5) }.to raise_error(ArgumentError)
  end
end
