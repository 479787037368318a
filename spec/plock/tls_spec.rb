# frozen_string_literal: true

require "spec_helper"
require "support/failures"

RSpec.describe "TLS" do
  include Support::Failures

  let(:certificates) { Support::Certificates }
  let(:ca) { { ca_file: certificates.ca.cert_file } }
  let(:server) { redis_server(:tls) }

  def tls_server(name, **options) =
    redis_server(:tls, cert: certificates.public_send(name), **options)

  describe "with a server whose certificate is good" do
    it "serves by address, by name, and through options in the URL" do
      expect_service(open_store(server.url, **ca), server)
      expect_service(open_store(server.url(host: "localhost"), **ca), server)
      expect_service(open_store(server.url("ca_file=#{certificates.ca.cert_file}")), server)
    end

    it "finds the authority in a folder" do
      expect_service(open_store(server.url, ca_path: certificates.ca_path), server)
    end

    it "shows a client certificate if the server demands one" do
      strict = tls_server(:server, client_auth: true)
      store =
        open_store(
          strict.url, cert: certificates.client.cert_file, key: certificates.client.key_file, **ca
        )
      expect_service(store, strict)
    end

    it "speaks TLS 1.2 with a server that knows nothing newer" do
      expect_service(
        open_store(
          redis_server(:tls, config: { "tls-protocols" => "TLSv1.2" }).then do |old|
            @old = old
            old.url
          end,
          **ca
        ),
        @old
      )
    end

    it "carries passwords, databases and long waits like any other transport" do
      server.call("ACL", "SETUSER", "alice", "on", ">secret", "~*", "&*", "+@all")
      store = open_store(server.url(user: "alice", password: "secret", db: 3), **ca)
      key = unique_key
      store.hold(key, 3_000, 1.0, nil) do
        expect(hold_failure(store, key, wait: 0.1)).to be_a(Plock::TimeoutError)
      end
      expect_service(open_store(server.url(user: "alice", password: "secret"), **ca), server)
    end

    it "serves many threads at once" do
      store = open_store(server.url, **ca)
      threads =
        Array.new(8) do
          background { Array.new(50) { store.hold(unique_key, 3_000, 5, nil) { 1 } }.sum }
        end
      expect(threads.sum(&:value)).to eq(400)
    end
  end

  # When the writer leaves, the server sends the messages for all readers at once. They are so long
  # that the store must read several times to get them all.
  it "serves every reader that waits behind a writer" do
    # under valgrind, 60 handshakes take long
    store = open_store(server.url, **ca, attempt_timeout: 10, release_timeout: 10)
    lock = store.read_write_lock(unique_key)
    readers = lock.write(ttl: 60) do
      waiting = Array.new(60) { background { lock.read(ttl: 60, wait: 10) { :served } } }
      eventually(10) { lock.status.waiters.size == 60 }
      waiting
    end
    expect(readers.map(&:value).tally).to eq(served: 60)
  end

  describe "with a server that must not be trusted" do
    subject(:store) { open_store(address, **options) }

    let(:options) { ca }

    context "because its authority is unknown" do
      let(:address) { tls_server(:stranger).url }

      it_behaves_like "a store that fails with", "Plock::AuthenticationError", :tls_verify
    end

    context "because no authority was named, and the system knows none of ours" do
      # under valgrind, reading the system's certificates takes long
      let(:options) { { attempt_timeout: 5 } }
      let(:address) { server.url }

      it_behaves_like "a store that fails with", "Plock::AuthenticationError", :tls_verify
    end

    context "because its certificate names another host" do
      let(:address) { tls_server(:wrong_name).url(host: "localhost") }

      it_behaves_like "a store that fails with", "Plock::AuthenticationError", :tls_verify
    end

    context "because its certificate names another host than this address" do
      let(:address) { tls_server(:wrong_name).url }

      it_behaves_like "a store that fails with", "Plock::AuthenticationError", :tls_verify
    end

    context "because its certificate has expired" do
      let(:address) { tls_server(:expired).url }

      it_behaves_like "a store that fails with", "Plock::AuthenticationError", :tls_verify

      it "says so" do
        expect(attempt_failure(store).message).to match(/expired/)
      end
    end

    it "never sends it a password" do
      impostor = tls_server(:stranger)
      attempt_failure(open_store(impostor.url(password: "hush"), **ca))
      expect(calls("auth", impostor) + calls("hello", impostor)).to eq(1) # the suite's own HELLO
    end
  end

  describe "with a name to verify that is not the address" do
    it "accepts the certificate of that name, and asks for it by SNI" do
      elsewhere = tls_server(:wrong_name)
      expect_service(open_store(elsewhere.url, server_name: "elsewhere.example", **ca), elsewhere)
      listener = hostile_server(:silent)
      attempt_failure(
        open_store(listener.url(scheme: "rediss"), server_name: "elsewhere.example", **ca)
      )
      expect(listener.received).to include("elsewhere.example")
    end

    it "asks for the URL's name by SNI, and for none with an address" do
      listener = hostile_server(:silent)
      attempt_failure(open_store("rediss://localhost:#{listener.port}", **ca))
      eventually { listener.received.include?("localhost") }
      listener = hostile_server(:silent)
      attempt_failure(open_store(listener.url(scheme: "rediss"), **ca))
      expect(listener.received).not_to include("127.0.0.1")
    end
  end

  describe "without verification" do
    it "works only when that is written out, and warns once" do
      stranger = tls_server(:stranger)
      url = stranger.url("verify=none")
      said = warnings { 2.times { expect_service(open_store(url), stranger) } }
      expect(said).to contain_exactly(match(/verif/i))
    end
  end

  describe "without the client certificate that is demanded" do
    # Long timeouts, because a handshake may be slow on a busy machine.
    patient = { connect_timeout: 5, attempt_timeout: 5 }

    it "is a typed error that speaks of the certificate" do
      store = open_store(tls_server(:server, client_auth: true).url, **ca, **patient)
      error = attempt_failure(store)
      expect(error.code).to eq(:tls)
      expect(error.message).to match(/certificate/i)
      expect(hold_failure(store).code).to eq(error.code)
    end

    it "is a typed error in TLS 1.2, too" do
      store =
        open_store(
          tls_server(:server, client_auth: true, config: { "tls-protocols" => "TLSv1.2" }).url,
          **ca, **patient
        )
      expect(attempt_failure(store).code).to eq(:tls)
    end
  end

  describe "with a handshake that goes wrong" do
    context "because it never ends" do
      subject(:store) { open_store(hostile_server(:silent).url(scheme: "rediss"), **ca) }

      it_behaves_like "a store that fails with", "Plock::UnavailableError", :silent
    end

    context "because it goes on byte by byte" do
      subject(:store) { open_store(gate.url(scheme: "rediss"), **ca) }

      let(:gate) { proxy(server).tap { |gate| gate.dribble(:reply, 0.01) } }

      it_behaves_like "a store that fails with", "Plock::UnavailableError", :silent

      it "serves once the line is good again" do
        attempt_failure(store)
        gate.clear
        expect_service(store, server)
      end
    end

    context "because the other side speaks no TLS" do
      subject(:store) { open_store(hostile_server(:not_tls).url(scheme: "rediss"), **ca) }

      it_behaves_like "a store that fails with", "Plock::UnavailableError", :tls
    end

    context "because the other side hangs up" do
      subject(:store) do
        open_store(
          hostile_server(:closes_on_request).url(scheme: "rediss"), attempt_timeout: 5, **ca
        )
      end

      it "is a typed error" do
        expect(attempt_failure(store).code).to eq(:disconnected)
      end
    end

    it "is a typed error when we speak no TLS to a server that does" do
      error = attempt_failure(open_store(server.url.sub("rediss", "redis")))
      expect(error).to be_a(Plock::UnavailableError).and have_attributes(code: :disconnected)
    end
  end

  describe "with files that are not there or do not fit" do
    it "names the option, in a configuration error" do
      { ca_file: "/nowhere.pem", ca_path: "/nowhere", cert: "/nowhere.crt" }.each do |option, path|
        message = begin
          attempt_failure(
            open_store(server.url, option => path, **(option == :cert ? { key: path } : {}))
          ).message
        rescue Plock::ConfigurationError => e
          e.message
        end
        expect(message).to match(/#{option}|#{path}/)
      end
    end

    it "refuses a key that does not belong to the certificate" do
      mixed = { cert: certificates.client.cert_file, key: certificates.server.key_file }
      expect { open_store(server.url, **mixed, **ca).then { |store| raise attempt_failure(store) } }
        .to raise_error(Plock::ConfigurationError)
    end
  end

  describe "when something fails" do
    it "leaves no orphan when the reply is lost" do
      gate = proxy(server)
      store = warm(open_store(gate.url(scheme: "rediss"), **ca))
      key = unique_key
      before = calls("evalsha", server)
      gate.swallow(:reply, connections: 1)
      attempt_failure(store, key)
      eventually { calls("evalsha", server) >= before + 2 }
      expect_no_orphan(key, server)
      expect_service(store, server)
    end

    it "asks on another connection when the line spoils an answer" do
      gate = proxy(server)
      store = warm(open_store(gate.url(scheme: "rediss"), **ca))
      lease = store.acquire(unique_key, ttl: 60)
      gate.replace("spoilt by the line", connections: 1)
      lease.release
      expect(server.client.call("EXISTS", lease.store_key)).to eq(0)
      gate.clear
      gate.replace("spoilt by the line", connections: 1)
      expect(store.acquire(unique_key) { :done }).to eq(:done)
    end

    it "survives the server's restart" do
      store = warm(open_store(server.url, **ca))
      server.restart
      expect_service(store, server)
    end

    it "is answered in one piece or in bytes", :timing do
      gate = proxy(server)
      store = warm(open_store(gate.url(scheme: "rediss"), **ca))
      gate.dribble(:reply, 0.0005)
      expect_service(store, server)
    end
  end
end
