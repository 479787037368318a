# frozen_string_literal: true

require "spec_helper"
require "support/failures"

RSpec.describe "A server that refuses" do
  include Support::Failures

  subject(:store) { open_store(address) }

  let(:redis) { Support::RedisServer }

  context "when the password is wrong" do
    let(:server) { redis_server(:password) }
    let(:address) { server.url(password: "guess-0815") }

    it_behaves_like "a store that fails with", "Plock::AuthenticationError", :wrongpass

    it "does not show the password that was tried" do
      error = hold_failure(store)
      expect([error.full_message, error.message, store.inspect, store.url].join).not_to include(
        "0815"
      )
    end

    it "does not try again and again" do
      before = calls("auth", server)
      expect(hold_failure(store, wait: 60)).to be_a(Plock::AuthenticationError)
      expect(calls("auth", server)).to eq(before + 1)
    end

    it "serves when its password is set to the store's" do
      attempt_failure(store)
      server.call("CONFIG", "SET", "requirepass", "guess-0815")
      expect_service(store, server)
    end
  end

  context "when it does not know AUTH, and echoes its arguments" do
    let(:address) { hostile_server([[:echo, said]]).url.sub("127", "locks:guess-0815@127") }
    let(:said) do
      "-ERR unknown command 'AUTH', with args beginning with: 'locks' 'guess-0815' \r\n"
    end

    it "does not pass the password on" do
      error = hold_failure(store)
      expect(error).to be_a(Plock::Error).and have_attributes(code: :server)
      expect(error.full_message).not_to include("0815")
    end
  end

  context "when it has as many clients as it will take" do
    let(:server) { redis_server(config: { "maxclients" => "1" }) }
    let(:address) { server.url }

    it "raises an error with its own code, and serves when there is room again" do
      server.call("PING") # uses the only connection
      expect(hold_failure(store)).to be_a(Plock::UnavailableError).and have_attributes(code: :full)
      server.call("CONFIG", "SET", "maxclients", 10)
      expect_service(store, server)
    end
  end

  context "when no password is given" do
    let(:address) { redis_server(:password).url }

    it_behaves_like "a store that fails with", "Plock::AuthenticationError", :noauth
  end

  context "when the user is unknown" do
    let(:address) { redis_server(:acl).url(user: "nobody", password: "x") }

    it_behaves_like "a store that fails with", "Plock::AuthenticationError", :wrongpass
  end

  context "when the user lacks a permission" do
    let(:server) { redis_server(:acl) }
    let(:address) { server.url(user: redis::READER, password: redis::ACL_PASSWORD) }

    it_behaves_like "a store that fails with", "Plock::PermissionError", :noperm

    it "serves when the permission is granted" do
      attempt_failure(store)
      server.call("ACL", "SETUSER", redis::READER, "+@all")
      expect_service(store, server)
    end
  end

  context "when the user may not touch the key" do
    let(:server) { redis_server(:acl) }
    let(:address) { server.url(user: redis::ACL_USER, password: redis::ACL_PASSWORD) }

    it "is a permission error for that key only" do
      expect(attempt_failure(store, "elsewhere:1")).to be_a(Plock::PermissionError)
      expect_service(store, server)
    end
  end

  context "when it is a read-only replica" do
    let(:server) { redis_server(:replica) }
    let(:address) { server.url }

    it_behaves_like "a store that fails with", "Plock::UnavailableError", :readonly

    it "serves when the replica is made a master" do
      attempt_failure(store)
      server.call("REPLICAOF", "NO", "ONE")
      expect_service(store, server)
    end
  end

  context "when it is a replica that has lost its master" do
    let(:address) { redis_server(:replica, config: { "replica-serve-stale-data" => "no" }).url }

    it_behaves_like "a store that fails with", "Plock::UnavailableError", :masterdown
  end

  %i[moved cluster].each do |kind|
    context "when it is a node of a cluster (#{kind})" do
      let(:address) { redis_server(kind).url }

      it_behaves_like "a store that fails with", "Plock::UnsupportedError", :cluster

      it "says what it is, and what to do" do
        expect(attempt_failure(store).message).to match(
          /Redis Cluster: use redis\+cluster:/
        )
      end
    end
  end

  context "when it is out of memory" do
    let(:server) { redis_server(:full) }
    let(:address) { server.url }

    it_behaves_like "a store that fails with", "Plock::UnavailableError", :oom

    it "serves when there is memory again" do
      attempt_failure(store)
      server.call("CONFIG", "SET", "maxmemory", "0")
      expect_service(store, server)
    end
  end

  context "when it is running another client's endless script" do
    let(:server) { redis_server(config: { "lua-time-limit" => "1" }) }
    let(:address) { server.url }
    let(:endless) do
      discard(RedisClient.config(path: server.unix_path, timeout: 60).new_client, :close)
    end

    before do
      endless
      background { endless.call("EVAL", "while true do end", 0) }
      eventually { busy? }
    end

    def busy?
      server.call("PING")
      false
    rescue RedisClient::CommandError => e
      e.message.start_with?("BUSY")
    end

    it_behaves_like "a store that fails with", "Plock::UnavailableError", :busy

    it "serves when the script has been killed" do
      attempt_failure(store)
      server.call("SCRIPT", "KILL")
      expect_service(store, server)
    end
  end

  context "when it is loading its data" do
    # While the server loads its data, it answers clients after every 1024 bytes. Each value is
    # larger than that, so the server answers after each value.
    let(:server) do
      redis_server(config: { "rdbcompression" => "no" }).tap do |server|
        400.times { |n| server.call("SET", "ballast:#{n}", SecureRandom.bytes(4_096)) }
        server.restart(
          save: true,
          config: {
            "key-load-delay" => "10000", "loading-process-events-interval-bytes" => "1024"
          }
        )
      end
    end
    let(:address) { server.url }

    it_behaves_like "a store that fails with", "Plock::UnavailableError", :loading

    it "admits a hold that waits as soon as it has loaded" do
      codes = Queue.new
      server
      holder =
        background do
          store.hold(unique_key, 3_000, 20, ->(_, error) { codes << error.code }) { :entered }
        end
      expect(codes.pop).to eq(:loading)
      server.call("CONFIG", "SET", "key-load-delay", "0")
      expect(holder.value).to eq(:entered)
    end
  end
end
