# frozen_string_literal: true

require "spec_helper"
require "fileutils"
require "tmpdir"

# What a local store does if the system, or the process itself, withholds something.
RSpec.describe Plock::LocalStore do
  let(:folder) do
    Dir
      .mktmpdir("plock-local-")
      .tap { |path| discard(-> { FileUtils.remove_entry(path) if File.exist?(path) }, :call) }
  end
  let(:url) { "local:#{folder}/deeper/locks" }

  def modes(*paths) = paths.map { |path| format("%o", File.stat(path).mode & 0o777) }

  it "makes files that it can use again, whatever the umask is" do
    before = File.umask(0o777)
    store = open_store(url, secret: "s" * 32)
    lease = store.acquire("k", ttl: 60)
    expect { store.acquire("k", wait: 0.01) }.to raise_error(Plock::TimeoutError)
    lease.release
    files = Dir["#{folder}/deeper/locks*"]
    expect(files.map { |name| File.extname(name) }).to include("", ".lock", ".secret", /\d/)
    expect([modes("#{folder}/deeper"), modes(*files).uniq]).to eq [["700"], ["600"]]
  ensure
    File.umask(before) if before
  end
end
