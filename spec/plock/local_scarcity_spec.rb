# frozen_string_literal: true

require "spec_helper"
require "fileutils"
require "tmpdir"

# The system, or a limit of the process, denies a local store something that it needs.
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

  describe "in a process that may begin no thread" do
    # Runs the block in a process that cannot start threads. The caller must not be root, because
    # root always can.
    def without_threads
      answer, tell = IO.pipe
      fork do
        Process.setrlimit(:NPROC, 0)
        value = yield
      rescue StandardError => e
        value = [e.class, e.message, e.respond_to?(:code) && e.code]
      ensure
        tell.write(Marshal.dump(value))
        exit!
      end
      tell.close
      Marshal.load(answer)
    end

    # Yields a store in which another caller holds the key "held". Returns the block's value.
    def beside_a_holder
      File.chown(65_534, nil, folder) if Process.euid.zero?
      in_child do
        Process::UID.change_privilege(65_534) if Process.euid.zero?
        store = Plock::Store.open(url)
        lease = store.acquire("held", ttl: 60)
        value = yield store
        raise "a waiter was left behind" if store.status("held").waiters.any?
        raise "a holder was left behind" if store.status("k").held? || !lease.valid?

        value
      end
    end

    # No thread could wake the caller when the key becomes free.
    it "does not wait" do
      refused = beside_a_holder do |store|
        without_threads { store.acquire("held", ttl: 60, wait: 1) { :never } }
      end
      expect(refused).to match [
        Plock::UnavailableError, /no thread .* to wait with/, :descriptors
      ]
    end

    it "acquires no lease that it could not watch" do
      calls = [
        ->(store) { store.acquire("k", on_lost: ->(_) {}) { :never } },
        ->(store) { store.acquire("k", renew: true) },
        ->(store) { store.acquire("k", renew: true) { sleep } }
      ]
      refused = beside_a_holder { |store| calls.map { |call| without_threads { call[store] } } }
      expect(refused).to all match([Plock::UnavailableError, /no thread/, :descriptors])
    end
  end
end
