# frozen_string_literal: true

require "spec_helper"
require "json"
require "open3"
require "support/command_line"

# The command on a machine that has no server.
RSpec.describe "plock without a server" do
  include Support::CommandLine

  let(:folder) do
    File
      .join(Support::Supervisor.folder, "local-#{SecureRandom.hex(6)}")
      .tap { |path| Dir.mkdir(path, 0o700) }
  end
  let(:key) { lock_name }
  let(:store) { open_store("local:#{folder}/plock/locks") }

  def plock_environment(env)
    Support::CommandLine::ENVIRONMENT.merge(
      "PLOCK_URL" => nil, "XDG_RUNTIME_DIR" => folder, "RAILS_ENV" => "production"
    ).merge(env)
  end

  def shell(script) = ["sh", "-c", script]

  it "locks on this host if no store is named, and does not warn of that" do
    job =
      start_plock(
        "run", key, "--label", "nightly", "--", *shell("echo $PLOCK_FENCE >&3; read line"),
        input: true
      )
    expect(Integer(job.line)).to eq store.status(key).fence
    expect(
      plock("run", key, "--", "true")[1..].then do |errors, status|
        [errors[/held since .* label "nightly"/], status.exitstatus]
      end
    ).to match [String, 75]
    expect(plock("status", key).last.exitstatus).to eq 1
    expect(JSON.parse(plock("list", "--json").first)).to match [a_hash_including("held" => true)]
    job.tell
    expect([job.finish.exitstatus, job.said]).to eq [0, ["", ""]]
    expect(
      plock("wait", key).then { |output, errors, status| [output, errors, status.exitstatus] }
    ).to eq ["", "", 0]
  end

  it "frees the key as soon as all processes of a killed command are gone, and not before" do
    skip "here a lock belongs to its process" unless store.liveness
    job =
      start_plock(
        "run", "--ttl", "3600", key, "--", *shell("sleep 60 & echo $! >&3; echo $$ >&3; wait")
      )
    family = [job.line, job.line]
    waiting =
      background { store.acquire(key, wait: 20) { family.map { |pid| running?(Integer(pid)) } } }
    eventually { store.status(key).waiters.any? }
    job.signal(:KILL)
    job.finish
    # both processes of the command had ended when the waiter entered, an hour before the ttl's end
    expect(waiting.value).to eq [false, false]
  end

  it "keeps the key as long as its process lives, even if it is stopped for longer than the ttl" do
    job = start_plock("run", "--ttl", "0.2", key, "--", *shell("echo >&3; read line"), input: true)
    job.line
    job.signal(:STOP)
    expect(store.try_acquire(key, wait: 0.8)).to be_nil
    job.signal(:CONT)
    job.tell
    expect(job.finish.exitstatus).to eq 0
    expect(store.try_acquire(key) { :ours }).to eq :ours
  end

  it "keeps the key until the watchdog has seen the last process end" do
    skip "here a lock belongs to its process" unless store.liveness
    job = start_plock("run", "--ttl", "3600", key, "--", *shell("echo $$ >&3; exec sleep 60"))
    job.line
    dog = Dir.glob("/proc/[0-9]*/comm").find { |file| watchdog?(file, job.pid) }[/\d+/].to_i
    Process.kill(:STOP, dog)
    job.signal(:KILL)
    job.finish
    expect(store.try_acquire(key, wait: 0.05)).to be_nil
    Process.kill(:CONT, dog)
    expect(store.acquire(key, wait: 20) { :ours }).to eq :ours
  end

  def watchdog?(file, parent)
    File.read(file) == "lease-watchdog\n" &&
      File.read(file.sub("comm", "stat"))[/\) \S (\d+)/, 1].to_i == parent
  rescue Errno::ENOENT, Errno::ESRCH
    false
  end

  it "accepts a path that is not text, as the library does" do
    url = "local:#{folder}/no\xFFtext/locks"
    expect(plock("run", key, "--", "true", env: { "PLOCK_URL" => url }).last).to be_success
    open_store(url).acquire(key) do
      expect(plock("status", key, env: { "PLOCK_URL" => url }).last.exitstatus).to eq 1
    end
    [%w[doctor --json], %w[secret --json]].each do |command|
      output, = plock(*command, env: { "PLOCK_URL" => url })
      expect(JSON.parse(output)["store"]).to eq url.scrub
    end
  end

  it "accepts everywhere a key that is not text" do
    odd = "\xFF"
    job = start_plock("run", odd, "--", *shell("echo >&3; exec sleep 60"))
    job.line
    expect(
      plock("status", odd).then do |output, errors, status|
        [output[/"\\xFF": held/], errors, status.exitstatus]
      end
    ).to eq ['"\xFF": held', "", 1]
    expect(JSON.parse(plock("status", "--json", odd).first)).to include("held" => true)
    expect(
      plock("run", odd, "--", "true")[1..].then do |errors, status|
        [errors[/"\\xFF" is held/], status.exitstatus]
      end
    ).to eq ['"\xFF" is held', 75]
    expect(plock("wait", "--wait", "0.1", odd).last.exitstatus).to eq 75
    expect(plock("break", "-y", odd).last.exitstatus).to eq 0
    expect(job.finish.exitstatus).to eq 76
  end

  # Runs the command with a folder that it cannot write to. For root, that must be a read-only file
  # system.
  def read_only(*command)
    if Process.uid.positive?
      File.chmod(0o500, folder)
      return command
    end
    mounting = [
      "unshare", "--mount", "sh", "-c", 'mount -t tmpfs -o ro none "$0" && exec "$@"', folder
    ]
    unless system(*mounting, "true", %i[out err] => File::NULL)
      skip "a file system for this example is not available"
    end
    [*mounting, *command]
  end

  it "exits with 69 if its folder is read-only" do
    command = [
      *Support::CommandLine::PROGRAM, "run", key, "--store", "local:#{folder}/plock/locks", "--",
      "true"
    ]
    _, errors, status = Open3.capture3(plock_environment({}), *read_only(*command))
    expect(
      [errors[/making its folder: (Read-only file system|Permission denied)/], status.exitstatus]
    ).to match [String, 69]
  end

  it "ends with 71, and leaves the key free, if the system refuses it any other file" do
    ended = (12..24).map do |most|
      output, errors, status = Open3.capture3(plock_environment({}), *Support::CommandLine::PROGRAM,
                                              "run", key, "--", "echo", "ran", rlimit_nofile: most)
      expect(store.status(key)).not_to be_held
      [output, errors[/Too many open files/], status.exitstatus]
    end
    refused = "Too many open files"
    expect([["", refused, 69], ["", refused, 71], ["ran\n", nil, 0]]).to include(*ended)
    expect(ended.map(&:last)).to include 71
  end

  it "keeps waiting if a parent folder is away for longer than a server may be" do
    deep = File.join(folder, "deep")
    Dir.mkdir(deep, 0o700)
    url = "local:#{deep}/plock/locks"
    lease = open_store(url).acquire(key)
    job = start_plock("run", key, "--wait", "20", "--", "true", env: { "PLOCK_URL" => url })
    eventually { open_store(url).status(key).waiters.any? }
    File.rename(deep, "#{deep}.away")
    sleep(1.5) # meanwhile, the waiter notices the missing file, and gives up this attempt
    lease.release
    File.rename("#{deep}.away", deep)
    expect([job.finish.exitstatus, job.said]).to match [0, ["", anything]]
  end

  it "ends with 128 + n by signal n as the first process of a container, while it waits" do
    container = %w[unshare --pid --fork]
    available = system(*container, "true", %i[out err] => File::NULL)
    skip "#{container.join(" ")} is not available" unless available
    lease = store.acquire(key)
    waiting = shell('exec 3<&0; { read line <&3; kill -TERM 1; } & exec "$@"')
    command = [*container, *waiting, "sh", *Support::CommandLine::PROGRAM, "wait", key]
    told, tell = IO.pipe
    process = Process.spawn(plock_environment({}), *command, in: told, err: File::NULL)
    Support::Supervisor.watch(process)
    eventually { store.status(key).waiters.any? }
    tell.puts
    expect(Process.wait2(process).last.exitstatus).to eq 143
    Support::Supervisor.forget(process)
    expect(store.status(key).waiters).to be_empty
    lease.release
  end

  it "ends the command when the key is broken" do
    job = start_plock("run", key, "--", *shell("echo $$ >&3; exec sleep 60"))
    pid = job.line
    expect(plock("break", "-y", key).last.exitstatus).to eq 0
    expect(job.finish.exitstatus).to eq 76
    expect_gone(pid)
  end

  it "is also checked by doctor" do
    named = { "PLOCK_URL" => "local:#{folder}/plock/locks", "XDG_RUNTIME_DIR" => nil }
    output, errors, status =
      plock(
        "doctor",
        "--json",
        env: {
          **named, "PLOCK_SECRET" => "sixteen bytes and more", "RAILS_ENV" => nil
        }
      )
    findings = JSON.parse(output)["findings"]
    expect([errors, status.exitstatus]).to eq ["", 0]
    expect(findings.map { |finding| finding["check"] }).to eq %w[
      place
      file-system
      trial
      descriptors
      secret
    ]
    expect(findings.map { |finding| finding["level"] }.uniq).to eq %w[fine]
    expect(findings.first["message"]).to include "#{folder}/plock/locks"
    expect(findings[1]["message"]).to match(/\A(\w+,|one) whose memory/)
    place = JSON.parse(plock("doctor", "--json").first)["findings"].first
    expect(place).to include("level" => "advice", "message" => /RAILS_ENV says production/)
  end

  it "gets advice from doctor if other processes use another path" do
    own = { "PLOCK_SECRET" => "sixteen bytes and more", "RAILS_ENV" => nil }
    place =
      JSON.parse(plock("doctor", "--json", env: { **own, "XDG_RUNTIME_DIR" => folder }).first)[
        "findings"
      ].first
    expect(place).to include("level" => "advice", "message" => /XDG_RUNTIME_DIR.*cron/)
  end

  it "exits with 64, and leaves the file alone, if it is not a file of plock's" do
    precious = "#{folder}/precious"
    File.write(precious, "no one else has this\n")
    %w[status run].each do |command|
      _, errors, status =
        plock(command, "--store", "local:#{precious}", key, *(%w[-- true] if command == "run"))
      expect(
        [errors[/#{precious} cannot be used: it is no file of plock's/], status.exitstatus]
      ).to match [String, 64]
    end
    expect(File.read(precious)).to eq "no one else has this\n"
    left = Dir.children(folder)
    # On a system whose file locks belong to processes, plock locks NAME.lock before it reads the
    # file NAME.
    beside = store.liveness ? [] : %w[precious.lock]
    expect(left).to match_array ["precious", *beside]
  end

  it "exits with 64, and says why, if a path cannot be used" do
    Dir.mkdir("#{folder}/open")
    File.chmod(0o777, "#{folder}/open")
    _, errors, status = plock("run", "--store", "local:#{folder}/open/locks", key, "--", "true")
    expect(status.exitstatus).to eq 64
    expect(errors).to include("#{folder}/open")
  end
end
