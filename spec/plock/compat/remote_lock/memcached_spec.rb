# frozen_string_literal: true

require "spec_helper"
require "active_support"
require "active_support/core_ext/numeric/time"
require "connection_pool"
require "fileutils"
require "plock/compat/remote_lock"
require "support/certificates"
require "support/memcached"
require "tmpdir"
require_relative "behaviour"
require_relative "original_process"

RSpec.describe RemoteLock::Adapters::Memcached, needs: Support::Memcached::PROGRAMS do
  let(:address) { Support::Memcached.shared.address }
  let(:adapter) { described_class.new(dalli) }
  let(:another_adapter) { described_class.new(ConnectionPool.new(size: 1) { dalli }) }
  let(:key) { "key-#{SecureRandom.hex(8)}" }
  let(:lock) { RemoteLock.new(adapter) }

  def dalli(**options) =
    Dalli::Client.new(
      [address], protocol: :meta, silence_marshal_warning: true, serializer: Marshal, **options
    )

  it_behaves_like "a remote lock" do
    let(:short) { 1 }
  end

  it "works with the clients of today" do
    [dalli, ConnectionPool.new { dalli }, address, [address]].each do |connection|
      expect(
        RemoteLock.new(described_class.new(connection)).synchronize(key, retries: 1) { :in }
      ).to be :in
    end
    expect { described_class.new(5) }.to raise_error(
      ArgumentError, /a client of memcached.*got Integer/
    )
  end

  # A memcached with TLS, and clients that use it.
  describe "on a server with TLS" do
    let(:server) do
      folder = Dir.mktmpdir.tap { |path| discard(-> { FileUtils.remove_entry(path) }, :call) }
      FileUtils.chmod(0o755, folder)
      pair = Support::Certificates.server.to_a.map do |file|
        File.join(folder, File.basename(file)).tap { |path| FileUtils.cp(file, path) }
      end
      FileUtils.chmod(0o644, pair)
      kind = Class.new(Support::Memcached) do
        define_method(:start_command) do |port|
          [*super(port), "-Z", "-o", "ssl_chain_cert=#{pair[0]},ssl_key=#{pair[1]}"]
        end

        def answers?
          TCPSocket.open("127.0.0.1", port).close
          true
        rescue SystemCallError
          false
        end
      end
      discard(kind.new.start, :stop)
    end
    let(:address) { server.address }

    it "locks with what its client knows of TLS" do
      context = OpenSSL::SSL::SSLContext.new
      context.set_params(ca_file: Support::Certificates.ca.cert_file, verify_hostname: true)
      adapter = described_class.new(dalli(ssl_context: context))
      expect(RemoteLock.new(adapter).synchronize(key, retries: 1) { :in }).to be(:in)
    end
  end

  it "says what is missing where the gem dalli is not installed, whatever client is given" do
    folder = Dir.mktmpdir.tap { |path| discard(-> { FileUtils.remove_entry(path) }, :call) }
    env = { "RUBYOPT" => nil, "BUNDLE_GEMFILE" => nil, "GEM_HOME" => folder, "GEM_PATH" => folder }
    output, status = ruby(<<~RUBY, env: env)
      require "plock/compat/remote_lock"
      [
        -> { RemoteLock::Adapters::Memcached.new("127.0.0.1:1") },
        -> { require "plock/store/memcached" }
      ].each do |call|
        call.call
      rescue LoadError => e
        puts e.message
      end
    RUBY
    expect([output.lines.size, status.success?]).to eq([2, true]), output
    expect(output.lines).to all(
      include(
        "plock talks to memcached through the gem dalli",
        'Add `gem "dalli", "~> 4.0"` to the Gemfile', "memcache-client"
      )
    )
  end

  # Runs in a process of its own, because this client causes warnings in current Rubies.
  it "works with memcache-client, and a pool of such, with its namespace" do
    output, status = ruby(<<~RUBY, address)
      $VERBOSE = nil
      require "connection_pool"
      require "memcache"
      require "plock/compat/remote_lock"

      client = MemCache.new([ARGV.first], namespace: "app")
      [client, ConnectionPool.new { client }].each do |connection|
        lock = RemoteLock.new(RemoteLock::Adapters::Memcached.new(connection))
        lock.synchronize("#{key}") do
          puts client.get("lock|#{key}")[/\\h{8}\\z/] == Thread.current[:thread_uid]
        end
        puts client.get("lock|#{key}").inspect
      end
    RUBY
    expect(status).to be_success, output
    expect(output.split).to eq %w[true nil true nil]
  end

  describe "on the wire" do
    it "writes the owner as the original's clients do" do
      allow(adapter).to receive(:uid).and_return("1234")
      adapter.store(key, 100)
      expect(dalli.get(key)).to eq "1234"
      expect(dalli.get(key, raw: true)).to eq Marshal.dump("1234")
      adapter.delete(key)
      expect(dalli.get(key)).to be_nil
    end

    it "reads what others write, marshalled or not" do
      allow(adapter).to receive(:uid).and_return("1234")
      [["1234", false], ["1234", true], [Marshal.dump("1234"), true]].each do |value, raw|
        dalli.set(key, value, 60, raw: raw)
        expect([adapter.has_key?(key), adapter.delete(key), dalli.get(key)]).to eq [true, true, nil]
      end
      dalli.set(key, "notvalid", 60)
      expect([adapter.has_key?(key), adapter.delete(key)]).to eq [false, false]
    end

    it "locks the same key in each namespace" do
      clients = [dalli(namespace: "app"), dalli(namespace: "other"), dalli]
      locks = clients.map { |client| RemoteLock.new(described_class.new(client)) }
      entered = locks.reduce(-> { :in }) do |inner, each|
        -> { each.synchronize(key, retries: 1, &inner) }
      end
      expect(entered.call).to be(:in)
    end

    it "takes over the namespace of the client" do
      lock = RemoteLock.new(described_class.new(dalli(namespace: "app")))
      lock.synchronize(key) do
        expect(dalli.get("app:lock|#{key}")).to end_with(Thread.current[:thread_uid])
      end
    end

    it "says which keys cannot be" do
      expect { lock.synchronize("a b") { raise "entered" } }.to raise_error(
        ArgumentError, /without blanks and control characters.*"lock\|a b"/
      )
      expect { lock.synchronize("a" * 250) { raise "entered" } }.to raise_error(
        ArgumentError, /1 to 250 bytes/
      )
    end
  end

  describe "beside processes of the original" do
    let(:original) { discard(OriginalProcess.new(:memcached, address), :kill) }

    it_behaves_like "a remote lock beside processes of the original"
  end
end
