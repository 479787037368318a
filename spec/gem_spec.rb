# frozen_string_literal: true

require "spec_helper"
require "open3"
require "pathname"
require "rbconfig"
require "rubygems/package"
require "tmpdir"
require "support/command_line"

# The gem as a user gets it: built from the checkout, and installed in a folder without other
# gems.
RSpec.describe "The gem", :slow do
  root = Pathname(__dir__).parent

  before(:context) do
    @folder = Pathname(Dir.mktmpdir("plock-gem"))
    home = @folder.join("home").to_s
    # Hides this process's bundle and the checkout.
    @env = {
      "GEM_HOME" => home, "GEM_PATH" => home, "RUBYOPT" => nil, "RUBYLIB" => nil,
      "BUNDLE_GEMFILE" => nil, "BUNDLER_SETUP" => nil, "MAKEFLAGS" => "-j2"
    }
    @gem = @folder.join("plock.gem")
    @built =
      run_gem("build", root.join("plock.gemspec").to_s, "--output", @gem.to_s, chdir: root.to_s)
    @installed = run_gem("install", "--local", "--no-document", @gem.to_s, chdir: @folder.to_s)
  end

  after(:context) { @folder.rmtree }

  def run_gem(*arguments, chdir:) =
    Open3.capture2e(@env, RbConfig.ruby, "-S", "gem", *arguments, chdir: chdir)

  def run_ruby(program) = Open3.capture2e(@env, RbConfig.ruby, "-e", program, chdir: @folder.to_s)

  it "builds and installs" do
    expect(@built.last).to be_success, @built.first
    expect(@installed.last).to be_success, @installed.first
  end

  it "holds what its list names, and that is what the tree has" do
    listed = Gem::Specification.load(root.join("plock.gemspec").to_s).files
    expect(Gem::Package.new(@gem.to_s).contents).to match_array(listed)

    next unless root.join(".git").exist? # `rake files` asks git

    output, status =
      Open3.capture2e(RbConfig.ruby, Gem.bin_path("rake", "rake"), "files", chdir: root.to_s)
    expect(status).to be_success, output
  end

  it "works where it is installed" do
    output, status = run_ruby(<<~RUBY)
      require "parse/lock"
      value = Parse::Lock.acquire("k", on_degraded: :proceed, secret: nil) { |token| token.length }
      puts value, Plock::VERSION, $LOADED_FEATURES.grep(/plock\\.(so|bundle)/)
    RUBY
    expect(status).to be_success, output
    length, version, library = output.lines(chomp: true)
    expect([length, version]).to eq ["36", Plock::VERSION]
    expect(File.realpath(library)).to start_with(@folder.realpath.to_s)
  end

  describe "its command", needs: "redis-server" do
    include Support::CommandLine

    def command = @folder.join("home/bin/plock").to_s

    def start(*words)
      discard(
        Support::CommandLine::Running.new(words, plock_environment(@env), { chdir: @folder.to_s }),
        :close
      )
    end

    it "is there, and works" do
      expect(start(command, "--version").said).to eq ["plock #{Plock::VERSION}\n", ""]
      job = start(command, "run", lock_name, "--", "sh", "-c", "echo $PLOCK_FENCE; exit 3")
      expect(job.said).to match [/\A\d{16,}\n\z/, ""]
      expect(job.finish.exitstatus).to eq 3
    end

    # The processor time that a command takes, in seconds.
    def cost(*words)
      before = Process.times
      start(*words).finish
      after = Process.times
      after.cutime + after.cstime - before.cutime - before.cstime
    end

    # Compares `plock status` with `plock --version`, which does little more than start Ruby and
    # RubyGems. On a slow or busy machine, all commands take longer, so the limit is relative to
    # Ruby alone. Only commands that ran just after each other are compared. The median counts,
    # because a single command is at times much faster or slower than the others.
    it "starts in at most 30 ms more than one that does nothing, where Ruby alone takes 44",
       :timing, :slow do
      programs = [
        [RbConfig.ruby, "-e", "0"], [command, "--version"], [command, "status", lock_name]
      ]
      at_most(0.030 / 0.044, least: -Float::INFINITY) do # a difference may be negative
        rounds = Array.new(7) do
          ruby, nothing, status = programs.map { |words| cost(*words) }
          (status - nothing) / ruby
        end
        rounds.sort[rounds.size / 2]
      end
    end
  end
end
