# frozen_string_literal: true

require "spec_helper"
require "support/command_line"
require "support/written_locks"

RSpec.describe "plock top", needs: "redis-server" do
  include Support::CommandLine

  let(:server) { redis_server }
  let(:store) { open_store(server.unix_url) }
  let(:locks) { Support::WrittenLocks.new(server, store) }

  def fill
    locks.hold("import", host: "worker-3", pid: 812, label: "nightly import", since: 754)
    3.times { |number| locks.wait("import", host: "web-#{number}", pid: 70, since: 600 - number) }
    locks.hold("invoice:7", host: "web-1", pid: 4711, label: "PDF of an invoice", since: 3)
  end

  it "prints one table if there is no terminal" do
    fill
    out, err, status = plock("top", "--store", server.unix_url)
    expect([err, status.exitstatus]).to eq ["", 0]
    expect(out.lines.size).to eq 3
    expect(out).to match(/^WAITING  OLDEST .*^3 +10m0\ds +12m3\ds +\S+ +lock +nightly import +w/m)
    expect(out).to match(/^0 +- .* PDF of an invoice +web-1:4711 /)
    expect(screen("sh", "-c", "TERM=dumb $PLOCK top --store #{server.unix_url}")
      .await("PDF of an invoice")).to include "WAITING"
  end

  it "names what cannot be right" do
    { %w[--interval 0] => "--interval must be from 0.2", %w[key] => "no key is needed" }
      .each do |options, message|
        _, err, status = plock("top", *options)
        expect([err, status.exitstatus]).to match [/#{message}/, 64]
      end
  end

  it "names the gem if it is missing" do
    hidden = File.join(Support::Supervisor.folder, "hidden-#{SecureRandom.hex(4)}")
    Dir.mkdir(hidden)
    # acts as if the gem were not installed
    File.write("#{hidden}/curses.rb",
               %(raise LoadError.new("no").tap { |e| def e.path = "curses" }))
    view = type_plock("top", env: { "RUBYLIB" => hidden, "TERM" => "xterm" })
    expect(view.finish.exitstatus).to eq 69
    expect(view.shown).to match(/plock top needs the gem curses.*Gemfile/m)
  end

  describe "at a terminal" do
    before do
      skip "curses not installed" if Gem::Specification.find_all_by_name("curses").empty?
    end

    # Starts plock top with the gems of this process's bundle.
    def view(*options, **env)
      env = { "RUBYOPT" => ENV["RUBYOPT"], "BUNDLER_SETUP" => ENV["BUNDLER_SETUP"],
              "TERM" => "vt100", "LANG" => "C.UTF-8" }.merge(env.transform_keys(&:to_s))
      type_plock("top", "--interval", "0.2", "--store", server.unix_url, *options, env: env)
    end

    # Makes the view draw the whole screen again, so that it sends all its text.
    def see(view, *texts)
      eventually(20, "#{texts} not shown: #{view.shown[-2_000..]}") do
        view.type("\f")
        seen = view.await(/plock top.*(?:q quit|Esc back|y break)/m)
        seen = seen[seen.rindex("plock top")..]
        texts.all? { |text| text === seen } && seen # rubocop:disable Style/CaseEquality
      end
    end

    it "shows the locks, those with the most waiters first, until q ends it" do
      fill
      view = view()
      seen = see(view, /2 held, 3 waiting/, /nightly import.*PDF of an invoice/m)
      expect(seen).to match(/3\W.*10m0\ds.*12m3\ds/)
      view.type("q")
      expect(view.finish.exitstatus).to eq 0
    end

    it "sorts by other columns, both ways" do
      fill
      locks.hold("z", label: "another label", since: 9_000)
      view = view()
      see(view, /nightly import.*another label/m)
      view.type("s")
      see(view, /Sorted by time held/, /another label.*nightly import.*PDF/m)
      view.type("r")
      see(view, /turned round/, /PDF.*nightly import.*another label/m)
    end

    it "filters by label, host and the name of a key" do
      fill
      view = view()
      { "invoice:7" => "PDF", "WORKER" => "nightly", "pdf" => "PDF" }.each do |filter, label|
        view.type("/#{filter}\n")
        seen = see(view, /Filter: #{filter}/, /#{label}/)
        expect(seen.scan(/nightly|PDF/)).to eq [label]
      end
      view.type("/x\u007F nothing\n")
      see(view, /Nothing held fits/)
      view.type("\e")
      see(view, /nightly.*PDF/m)
    end

    it "shows all holders and waiters of a lock" do
      fill
      view = view()
      see(view, /nightly/)
      view.type("\n")
      see(view, /held by worker-3:812 "nightly import" for 12m.*fence \d+/,
          /waits: web-0:70.*web-2:70/m)
      view.type("\e")
      see(view, /PDF/)
    end

    it "breaks a lock after a confirmation that repeats holder and label" do
      lease = store.acquire("import", label: "nightly import", ttl: 60)
      view = view()
      see(view, /nightly import/)
      2.times do |round|
        view.type("b")
        see(view, /Break this lock\?/, /held by \S+:#{Process.pid} "nightly import"/,
            /fence #{lease.fence}/)
        expect(store.status("import")).to be_held
        view.type(round.zero? ? "n" : "y")
        see(view, /Nothing was done/) if round.zero?
      end
      eventually { !store.status("import").held? }
      see(view, /No key is held/)
      expect { lease.extend(ttl: 60) }.to raise_error(Plock::LeaseLost)
    end

    it "takes no key that was typed before the question as the answer to it" do
      lease = store.acquire("import", label: "nightly import", ttl: 60)
      view = view()
      see(view, /nightly import/)
      view.type("by")
      see(view, /Break this lock\?/)
      expect(store.status("import")).to be_held
      view.type("n")
      see(view, /Nothing was done/)
      expect(lease.extend(ttl: 60)).to be_valid
      lease.release
    end

    it "breaks nothing if the holder has changed since the question" do
      first = store.acquire("import", label: "nightly import", ttl: 60)
      view = view()
      see(view, /nightly import/)
      view.type("b")
      see(view, /Break this lock/)
      first.release
      other = store.acquire("import", label: "another import", ttl: 60)
      view.type("y")
      eventually { view.type("\f") && view.await(/The holder has changed/) }
      expect(store.status("import").label).to eq "another import"
      other.release
    end

    it "breaks nothing with --read-only" do
      fill
      view = view("--read-only")
      expect(see(view, /nightly/)).not_to include "break"
      view.type("b")
      view.await(/read-only/)
      view.type("y")
      see(view, /nightly/)
      expect(store.status("import")).to be_held
    end

    it "takes the size that the terminal has, also later" do
      label = "a label that needs more room than eighty columns have for it"
      locks.hold("a", label: label)
      view = view()
      expect(see(view, /a label/)).not_to include label
      view.resize(30, 160)
      see(view, /#{label}/)
      view.resize(6, 40)
      see(view, /plock top/)
    end

    it "lives in a window of any size, breaks nothing that it cannot ask about, and comes back" do
      fill
      view = view()
      see(view, /nightly import/)
      { [5, 20] => "plock top  unix:///t", [1, 1] => "p", [3, 1] => "p" }.each do |size, title|
        view.resize(*size)
        view.await(/\e\[H\e\[J(?:\e[^a-zA-Z]*[a-zA-Z]|\u000F)*#{title}(?![a-z])/)
        "jkb".each_char { |key| view.type(key) }
        view.type("y")
      end
      view.resize(24, 80)
      see(view, /nightly import.*PDF of an invoice/m)
      expect([store.status("import").held?, store.status("invoice:7").held?]).to eq [true, true]
      view.type("q")
      expect(view.finish.exitstatus).to eq 0
    end

    it "begins in a window of any size" do
      fill
      [[5, 20], [1, 1]].each do |lines, columns|
        view = screen(
          "sh", "-c", "stty rows #{lines} cols #{columns}; $PLOCK top --store #{server.unix_url}",
          env: { "TERM" => "vt100", "RUBYOPT" => ENV["RUBYOPT"],
                 "BUNDLER_SETUP" => ENV["BUNDLER_SETUP"] }
        )
        view.await(lines == 1 ? "p" : "plock top")
        view.resize(24, 80)
        see(view, /nightly import/)
        view.type("q")
        expect(view.finish.exitstatus).to eq 0
      end
    end

    it "stops by Ctrl-Z, and goes on by fg in a window of another size" do
      fill
      label = "a label that needs more room than eighty columns have for it"
      locks.hold("a", label: label)
      shell = screen("sh", "-i", env: { "TERM" => "xterm", "PS1" => "ready: ", "ENV" => nil,
                                        "RUBYOPT" => ENV["RUBYOPT"],
                                        "BUNDLER_SETUP" => ENV["BUNDLER_SETUP"] })
      shell.await("ready: ")
      shell.resize(24, 80)
      shell.type("$PLOCK top --store #{server.unix_url}\n")
      expect(shell.await("invoice")).not_to include label
      2.times do
        shell.type("\C-z")
        expect(shell.await("ready: ")).to include "\e[?1049l" # restores the earlier screen
        shell.type("stty -a\n")
        expect(shell.await("ready: ")).to match(/(?<![-\w])icanon/).and match(/(?<![-\w])echo\b/)
        shell.resize(30, 160)
        shell.type("fg\n")
        shell.await(label)
      end
      shell.type("q") # without Enter, because after `fg` the view reads single keys
      shell.await("ready: ")
      shell.type("exit\n")
      expect(shell.finish.exitstatus).to eq 0
    end

    it "has colours, but not with NO_COLOR" do
      fill
      locks.wait("invoice:7", since: 1)
      coloured = view(TERM: "xterm-256color")
      coloured.await(/\e\[[\d;]*33m.*PDF/m)
      plain = view(TERM: "xterm-256color", NO_COLOR: "1")
      plain.await("PDF of an invoice")
      expect(plain.shown).not_to match(/\e\[(?:\d+;)*[34]\dm/)
    end

    it "shows hostile text as text" do
      locks.hold("a", label: "red\e[31m\e]0;owned\a\u202E", host: "h\e[2J")
      view = view()
      expect(see(view, /red/)).not_to match(/\e\[31m|\e\]0|\e\[2J:|\a/)
    end

    it "keeps what it shows if the store does not answer, and says so; keys work meanwhile" do
      fill
      view = view()
      see(view, /nightly/)
      server.stop_process
      see(view, /The store does not answer/, /nightly/)
      view.type("/pdf\n")
      expect(see(view, /PDF/)).not_to include "nightly"
      view.type("q")
      expect(view.finish.exitstatus).to eq 0
    ensure
      server.continue_process
    end

    it "ends by Ctrl-C, TERM and the end of the terminal, and restores the terminal" do
      fill
      { "INT" => ->(view) { view.type("\C-c") },
        "TERM" => ->(view) { Process.kill(:TERM, view.pid) } }.each_value do |signal|
        view = view(TERM: "xterm")
        view.await("PDF")
        signal.call(view)
        expect(view.finish.exitstatus).to eq 0
        expect(view.shown).to include "\e[?1049l" # restores the earlier screen
      end
      shell = screen("sh", "-c", "$PLOCK top --store #{server.unix_url}; stty -a; echo end",
                     env: { "TERM" => "vt100", "RUBYOPT" => ENV["RUBYOPT"],
                            "BUNDLER_SETUP" => ENV["BUNDLER_SETUP"] })
      shell.await("PDF")
      shell.type("q")
      expect(shell.await("end")).to match(/(?<![-\w])icanon/).and match(/(?<![-\w])echo\b/)
      view = view()
      view.await("PDF")
      view.hang_up
      view.finish
    end
  end
end
