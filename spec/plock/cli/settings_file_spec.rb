# frozen_string_literal: true

require "spec_helper"
require "plock/cli"
require "plock/cli/settings_file"
require "support/command_line"

# How plock finds and reads config/plock.yml.
RSpec.describe Plock::CLI::SettingsFile do
  include Support::CommandLine

  let(:app) do
    File
      .join(Support::Supervisor.folder, "app-#{SecureRandom.hex(6)}")
      .tap { |path| FileUtils.mkdir_p("#{path}/config") }
  end
  let(:file) { "#{app}/config/plock.yml" }

  # An application whose folder every user may enter.
  let(:open_app) do
    Dir.mktmpdir("plock").tap do |path|
      File.chmod(0o755, path)
      FileUtils.mkdir_p("#{path}/config")
      discard(-> { FileUtils.rm_r(path) }, :call)
    end
  end

  def write(text) = File.write(file, text)

  # The error that the block raises in a child, in the application's folder.
  def refusal
    in_child do
      Dir.chdir(app)
      yield
      nil
    rescue Plock::CLI::UsageError => e
      e.message
    end
  end

  it "is read from a descriptor, which gives its text only once" do
    reader, writer = IO.pipe
    writer.write("shared:\n  namespace: billing\n")
    writer.close
    found = described_class.find("/dev/fd/#{reader.fileno}")
    2.times { expect(found.settings).to eq(namespace: "billing") }
    reader.close
  end

  it "is checked when it is read: another one may have taken its place" do
    write("shared:\n  namespace: mine\n")
    message =
      refusal do
        found = described_class.find(nil)
        FileUtils.rm(file)
        write("shared:\n  namespace: <%= raise \"it ran\" %>\n")
        File.chmod(0o666, file)
        found.settings
      end
    expect(message).to include "it is world-writable"
  end

  it "does not hold the command back if it is a FIFO of another user's" do
    message =
      refusal do
        FileUtils.rm_f(file)
        File.mkfifo(file)
        File.chmod(0o666, file)
        Timeout.timeout(5) { described_class.find(nil).settings }
      end
    expect(message).to include "it is world-writable"
  end

  it "is refused if --config names it in a working directory that is gone" do
    expect(
      refusal do
        FileUtils.rm_r(app)
        described_class.find("config/plock.yml").settings
      end
    ).to match(%r{\Aconfig/plock.yml cannot be used: No such file})
  end

  it "is refused if this user may not look into the folder config" do
    skip "only root can become another user" unless Process.uid.zero?
    File.chmod(0o700, "#{open_app}/config")
    expect(
      refusal do
        Dir.chdir(open_app)
        Process::UID.change_privilege(65_534)
        described_class.find(nil)&.settings
      end
    ).to match(%r{\A#{open_app}/config/plock.yml cannot be used: Permission denied})
  end

  it "is not looked for in folders above that this user may not enter" do
    skip "only root can become another user" unless Process.uid.zero?
    FileUtils.mkdir("#{open_app}/inside")
    File.chmod(0o700, open_app)
    expect(
      refusal do
        Dir.chdir("#{open_app}/inside")
        Process::UID.change_privilege(65_534)
        raise Plock::CLI::UsageError, "found" if described_class.find(nil)
      end
    ).to be_nil
  end

  it "is refused if its ERB ends the process, as abort does" do
    write("shared:\n  url: <%= ENV[\"NO_SUCH\"] or abort(\"no url\") %>\n")
    expect(
      refusal do
        $stderr.reopen(File::NULL)
        described_class.find(nil).settings
      end
    ).to match(/its ERB raised SystemExit \(no url\)/)
  end

  it "has words in the place of Symbols, for each option that takes them" do
    write("shared:\n  options: { verify: peer, sentinel_verify: peer, encoding: marshal, " \
          "release: background }\n")
    options = described_class.find(file).settings.fetch(:options)
    expect(options.values).to all(be_a(Symbol))
    expect { open_store("rediss+sentinel://s1.example/main", **options) }.not_to raise_error
  end

  it "is refused without a word of the password if its store is a URL" do
    write("shared:\n  store: redis://:sesame@localhost\n")
    message = refusal { described_class.find(nil).settings }
    expect(message).to match(/store must be one of database, advisory .*; a URL belongs in url/)
    expect(message).not_to include "sesame"
    write("shared:\n  store: databse\n")
    expect(refusal { described_class.find(nil).settings }).to include '(got "databse")'
  end
end
