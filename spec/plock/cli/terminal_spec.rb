# frozen_string_literal: true

require "spec_helper"
require "support/command_line"

# Job control. Each example has a terminal of its own.
RSpec.describe "plock run at a terminal", needs: "redis-server" do
  include Support::CommandLine

  let(:key) { lock_name }
  let(:store) { open_store }

  def run_at_terminal(script, *options) = type_plock("run", key, *options, "--", "sh", "-c", script)

  it "gives the terminal to the command" do
    job = run_at_terminal('set -- $(ps -o pgid=,tpgid= -p $$); test "$1" = "$2" && echo mine; ' \
                          'read line; echo "got $line"')
    job.await("mine")
    job.type("words\n")
    job.await("got words")
    expect(job.finish.exitstatus).to eq 0
  end

  it "ends by Ctrl-C as the command does: 130, and the key is free" do
    job = run_at_terminal("echo ready; exec sleep 60")
    job.await("ready")
    job.type("\C-c")
    expect(job.finish.exitstatus).to eq 130
    expect(store.status(key)).not_to be_held
  end

  it "leaves Ctrl-C to a command that handles it itself" do
    job = run_at_terminal("trap 'echo caught' INT; echo ready; read line; read line; echo went on")
    job.await("ready")
    job.type("\C-c")
    job.await("caught")
    job.type("\n\n")
    job.await("went on")
    expect(job.finish.exitstatus).to eq 0
  end

  it "ends by Ctrl-C while it waits for the key" do
    store.acquire(key, ttl: 30) do
      job = type_plock("run", "--wait", "60", key, "--", "true")
      eventually { store.status(key).waiters.any? }
      job.type("\C-c")
      expect(job.finish.termsig).to eq Signal.list["INT"]
      eventually { store.status(key).waiters.empty? }
      expect(job.shown).to match(/\A(\^C)?\s*\z/)
    end
  end

  it "goes on after Ctrl-Z if no shell could continue it" do
    job = run_at_terminal("echo ready; read line; echo \"got $line\"")
    job.await("ready")
    job.type("\C-z")
    job.type("words\n")
    job.await("got words")
    expect(job.finish.exitstatus).to eq 0
  end

  it "restores the terminal if the command is killed" do
    job =
      screen(
        "sh", "-c",
        "$PLOCK run '#{key}' -- sh -c 'stty -echo -icanon; kill -KILL $$'; stty -a; echo end"
      )
    job.await("end")
    expect(job.shown).to match(/(?<![-\w])icanon/).and match(/(?<!-)\becho\b(?! end)/)
  end

  it "ends when the terminal is hung up" do
    job = run_at_terminal("echo $$; echo ready; read line; exec sleep 60")
    pid = job.await("ready")[/\d+/]
    job.hang_up
    expect(job.finish.exitstatus).to eq 129
    expect_gone(pid)
    expect(store.status(key)).not_to be_held
  end

  describe "in a shell", needs: "bash" do
    plain = { "PS1" => "prompt> ", "PS2" => "", "HISTFILE" => "", "TERM" => "dumb" }

    let(:shell) { screen("bash", "--norc", "--noprofile", "-i", env: plain) }

    before do
      shell.await("prompt> ")
      shell.type("stty -echo\n")
      shell.await("prompt> ")
    end

    def run_in_shell(script, *options, tail: "")
      words = ["run", key, *options, "--", "sh", "-c", script]
      shell.type("$PLOCK #{Shellwords.join(words)} #{tail}\n")
    end

    def await_stopped_job
      eventually(10, "it is not stopped") do
        shell.type("jobs\n")
        shell.await("prompt> ").include?("Stopped")
      end
    end

    it "is stopped by Ctrl-Z and continued by fg" do
      run_in_shell("echo ready; read line; echo \"got $line\"; exit 9")
      shell.await("ready")
      shell.type("\C-z")
      shell.await(/Stopped.*prompt> /m)
      shell.type("fg\n")
      shell.type("words\n")
      shell.await("got words")
      shell.await("prompt> ")
      shell.type("echo status $?\n")
      shell.await("status 9")
    end

    it "can be stopped more than once" do
      run_in_shell("echo ready; while read line; do echo \"got $line\"; done")
      shell.await("ready")
      3.times do |round|
        shell.type("\C-z")
        shell.await(/Stopped.*prompt> /m)
        shell.type("fg\n")
        shell.type("words #{round}\n")
        shell.await("got words #{round}")
      end
      shell.type("\C-d")
      shell.await("prompt> ")
    end

    it "is stopped and continued beside a neighbour in a pipe" do
      run_in_shell("echo ready; read line </dev/tty; echo \"got $line\"", tail: "| cat")
      shell.await("ready")
      shell.type("\C-z")
      shell.await(/Stopped.*prompt> /m)
      shell.type("fg\n")
      shell.type("words\n")
      shell.await("got words")
      shell.await("prompt> ")
    end

    it "does not go on when the lease ended meanwhile: 76" do
      run_in_shell("kill -TSTP $$; echo went on", "--ttl", "0.4")
      shell.await(/Stopped.*prompt> /m)
      eventually { !store.status(key).held? }
      shell.type("fg\n")
      expect(shell.await(/was lost.*prompt> /m)).not_to match(/^went on/)
      shell.type("echo status $?\n")
      shell.await("status 76")
    end

    it "is stopped in the background when it wants to read, and reads in the foreground" do
      run_in_shell("read line; echo \"got $line\"", tail: "&")
      shell.await("prompt> ")
      await_stopped_job
      shell.type("fg\n")
      shell.type("words\n")
      shell.await("got words")
      shell.await("prompt> ")
    end

    it "is stopped as a whole when a neighbour in a pipe reads in the background" do
      run_in_shell(
        "echo ready $$; exec sleep 60",
        tail: "| (read first; echo first $first; read line </dev/tty; echo \"neighbour $line\") &"
      )
      pid = shell.await(/first ready \d+\n/)[/ready (\d+)/, 1]
      await_stopped_job
      expect(File.read("/proc/#{pid}/stat")).to include ") T "
      shell.type("fg\n")
      shell.type("words\n")
      shell.await("neighbour words")
      shell.type("\C-c")
      shell.await("prompt> ")
      eventually { !store.status(key).held? }
    end

    it "leaves the terminal to a neighbour in a pipe until it is asked for it" do
      run_in_shell("echo ready; read line </dev/tty; echo \"got $line\"", tail: "| cat")
      shell.await("ready")
      shell.type("words\n")
      shell.await("got words")
      shell.await("prompt> ")
    end

    it "lets a neighbour in a pipe read from the terminal" do
      run_in_shell(
        "echo ready; exec sleep 60",
        tail: "| (read first; echo first $first; read line </dev/tty; echo \"neighbour $line\")"
      )
      shell.await("first ready")
      shell.type("words\n")
      shell.await("neighbour words")
      shell.type("\C-c")
      shell.await("prompt> ")
      eventually { !store.status(key).held? }
    end

    it "ends a loop by Ctrl-C" do
      shell.type("for i in 1 2 3; do $PLOCK run '#{key}' -- sh -c 'echo ready; exec sleep 60'; " \
                 "echo next; done\n")
      shell.await("ready")
      shell.type("\C-c")
      expect(shell.await("prompt> ")).not_to include("next")
      shell.type("echo status $?\n")
      shell.await("status 130")
    end

    it "ends a script by Ctrl-C" do
      shell.type(
        "bash -c \"$PLOCK run '#{key}' -- sh -c 'echo ready; exec sleep 60'; echo next\"\n"
      )
      shell.await("ready")
      shell.type("\C-c")
      expect(shell.await("prompt> ")).not_to include("next")
    end
  end
end
