# frozen_string_literal: true

require "spec_helper"
require "support/files_that_go"

RSpec.describe "TLS with sentinels", needs: Support::RedisServer::PROGRAM do
  include Support::FilesThatGo

  let(:server) { redis_server(:tls) }
  let(:sentinel) do
    redis_server(
      :sentinel, cert: Support::Certificates.server,
                 monitor: ["main", "127.0.0.1", server.port.to_s, "1"]
    )
  end
  let(:patient) { { attempt_timeout: 5, connect_timeout: 5, release_timeout: 5 } }
  let(:url) { "rediss+sentinel://127.0.0.1:#{sentinel.port}/main" }
  let(:key) { "tls:#{SecureRandom.hex(4)}" }
  let(:store) { open_store(url, **files, **patient) }

  describe "whose files are out of reach after the first call" do
    before do
      store.acquire(key) { nil }
      @lease = store.acquire(key, ttl: 60)
      files_go
    end

    it "goes on with new connections, in a forked child, too" do
      store.close
      expect(store.acquire("another #{key}") { :entered }).to eq(:entered)
      expect(in_child { store.acquire("another #{key}") { :entered } }).to eq(:entered)
      @lease.release
    end

    it "releases what was held, on a new connection" do
      [server, sentinel].each do |one|
        one.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
      end
      expect(@lease.release).to be(true)
      expect(server.call("EXISTS", @lease.store_key)).to eq(0)
    end
  end
end
