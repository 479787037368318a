# frozen_string_literal: true

require "spec_helper"
require "fileutils"
require "open3"
require "rbconfig"
require "tmpdir"

RSpec.describe "bin/demo" do
  root = File.expand_path("..", __dir__)

  let(:folder) { Dir.mktmpdir("plock-demo-spec") }

  after { FileUtils.remove_entry(folder) }

  def left_behind = Dir.children(folder)

  def ended?(pid)
    Process.kill(0, pid)
    false
  rescue Errno::ESRCH
    true
  end

  define_method(:demo) do |url|
    Open3.capture2e({ "TMPDIR" => folder, "PLOCK_URL" => url }, "#{root}/bin/demo")
  end

  def expect_a_table_in(output)
    expect(output).to match(/^\| +8 \| +\d+ \| +\d+ \|/)
      .and match(/killed while inside/)
      .and match(/overlaps seen +\| +0 \|/)
      .and match(/wait, p50 .* ms.*wait, p99 .* ms.*wait, longest .* ms/m)
      .and match(/from the kill to the next section \| +\d+\.\d ms \(ttl 1 s\)/)
  end

  [nil, ""].each do |url|
    it "needs no server with PLOCK_URL=#{url.inspect}: prints a table without overlaps, " \
       "survives the kill, and leaves nothing behind", :timing, *(:slow if url) do
      output, status = demo(url)
      expect(status).to be_success, output
      expect(output).to start_with("8 processes, one lock, no server\n")
      expect_a_table_in output
      # another process gets the lock before the killed process's lease would have expired
      expect(output[/to the next section \| +(\d+\.\d) ms/, 1].to_f).to be < 900
      expect(left_behind).to be_empty
    end
  end

  it "uses the file that PLOCK_URL names", :slow do
    output, status = demo("local:#{folder}/locks")
    expect(status).to be_success, output
    expect(output).to start_with("8 processes, one lock, local:#{folder}/locks\n")
    expect_a_table_in output
    expect(left_behind).to all(start_with("locks")).and include("locks")
    Plock::Store
      .open("local:#{folder}/locks")
      .then { |store| expect(store.each_lock.to_a).to be_empty }
  end

  describe "on a server", needs: "redis-server" do
    it "does the same, and leaves nothing behind there", :slow do
      server = redis_server
      output, status = demo(server.url)
      expect(status).to be_success, output
      expect(output).to start_with("8 processes, one lock, #{server.url}")
      expect_a_table_in output
      expect(server.call("KEYS", "*")).to be_empty
      expect(left_behind).to be_empty
    end

    it "interrupted, leaves neither processes nor keys" do
      server = redis_server(:password)
      env = {
        "TMPDIR" => folder, "PLOCK_URL" => server.url(password: Support::RedisServer::PASSWORD)
      }
      Open3.popen2e(env, "#{root}/bin/demo", pgroup: true) do |_, output, demo|
        eventually(20, "the demo did not start to contend") { server.call("KEYS", "*").any? }
        Process.kill(:INT, -demo.pid) # Ctrl-C in a terminal signals the whole group
        expect(demo.value.exitstatus).to eq 130
        output.read # returns when no process has the pipe open any more
      end
      expect(server.call("KEYS", "*")).to be_empty
      expect(left_behind).to be_empty
    end
  end

  it "leaves no process behind that had only just begun when it was interrupted" do
    program = <<~RUBY
      require "#{root}/bin/support/demo/contest"
      require "#{root}/bin/support/demo/host_store"
      Demo::Worker.prepend(Module.new do
        def initialize(number, *)
          super
          puts pid
          Process.kill(:INT, Process.pid) if number == 3
        end
      end)
      $stdout.sync = true
      begin
        Demo::Contest.new(Demo::HostStore.new).run
      rescue SignalException => e
        exit 128 + e.signo
      end
    RUBY
    output, status = ruby(program, env: { "TMPDIR" => folder })
    expect(status.exitstatus).to eq(130), output
    pids = output.scan(/^\d+$/).map { |line| Integer(line) }
    expect(pids.size).to be >= 3
    expect(pids.reject { |pid| ended?(pid) }).to be_empty
    expect(left_behind).to be_empty
  end

  it "says what is wrong with PLOCK_URL, without the password" do
    output, status =
      Open3.capture2e({ "PLOCK_URL" => "redis://:secret@127.0.0.1:99999" }, "#{root}/bin/demo")
    expect(status.exitstatus).to eq 1
    expect(output).to include("port").and(satisfy { |text| !text.include?("secret") })
  end

  it "sees when a lock does not exclude" do
    program = <<~RUBY
      require "#{root}/bin/support/demo/contest"
      require "#{root}/bin/support/demo/host_store"
      require "#{root}/bin/support/demo/report"
      store = Demo::HostStore.new
      contest = Demo::Contest.new(store, lock: ->(&section) { section.call }, duration: 0.5)
      puts report = Demo::Report.new(contest.run)
      exit report.sound?
    RUBY
    output, status = ruby(program, env: { "TMPDIR" => folder })
    expect(status.exitstatus).to eq(1), output
    expect(output[/overlaps seen +\| +(\d+)/, 1].to_i).to be_positive
    expect(left_behind).to be_empty
  end
end
