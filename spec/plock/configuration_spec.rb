# frozen_string_literal: true

require "spec_helper"

RSpec.describe Plock::Configuration do
  describe "#first_fault" do
    def fault_of(settings)
      configuration = described_class.new
      settings.each { |name, value| configuration.public_send(:"#{name}=", value) }
      configuration.first_fault
    end

    around do |example|
      kept = ENV.to_h.slice("PLOCK_URL", "PLOCK_SECRET", "PLOCK_NAMESPACE")
      kept.each_key { |name| ENV.delete(name) }
      example.run
    ensure
      %w[PLOCK_URL PLOCK_SECRET PLOCK_NAMESPACE].each { |name| ENV[name] = kept[name] }
    end

    {
      { url: "redis://h:port" } => [:url, /the port is not a number/],
      { url: "redsi://h" } => [:url, /unknown scheme/],
      { url: "" } => [:url, /the store is ""/],
      { url: "memcached://" } => [:url, /names no server|gem dalli/],
      { url: "local:locks" } => [:url, /has to be absolute/],
      { url: "local:?keys=1" } => [:url, /keys must be from 16/],
      { url: Object.new } => [:url, /Redis/],
      { url: "redis://h", options: { pool_size: "many" } } => [:options, /must be an Integer/],
      { url: "redis://h", options: { pol_size: 3 } } => [:options, /unknown keyword: :pol_size/],
      { url: "local:", options: { pool_size: 3 } } => [:options, /of no use to a local store/],
      { url: "memory:", options: { pool_size: 3 } } => [:options, /of no use to a store in memory/],
      { url: "redis://h", secret: "short" } => [:secret, /at least 16 bytes/],
      { url: "redis://h", namespace: "a b" } => [:namespace, /must be 1 to 32/],
      { ttl: "ten" } => [:ttl, /must be from/],
      { wait: -1 } => [:wait, /must be/],
      { url: "redis://h", store: "advisory" } => [:store, /url is of no use with store: advisory/]
    }.each do |settings, (name, message)|
      it "finds #{name} in #{settings.inspect[0, 60]}" do
        found, error = fault_of(settings)
        expect([found, error&.message]).to match([name, message])
        expect(error.message).not_to include("short")
      end
    end

    it "finds options that are of no use to memcached", :databases do
      found, error = fault_of({ url: "memcached://h", options: { ca_file: "/ca.pem" } })
      expect([found, error.message]).to match([:options, /ca_file is of no use to a store in memc/])
    end

    it "finds the variables, too, and which of them it is" do
      expect(fault_of({})).to be_nil
      ENV["PLOCK_NAMESPACE"] = "a b"
      expect(fault_of({ secret: "s" * 16, url: "redis://h" }).first).to be(:namespace)
      ENV["PLOCK_SECRET"] = ""
      expect(fault_of({ url: "redis://h" }).first).to be(:secret)
      expect(fault_of({ secret: "s" * 16, namespace: "n" })).to be_nil
      ENV["PLOCK_URL"] = "redsi://h"
      expect(fault_of({ secret: "s" * 16, namespace: "n" }).first).to be(:url)
    end

    it "finds nothing in right settings, and opens nothing" do
      place = File.join(Dir.tmpdir, "plock-absent-#{SecureRandom.hex(8)}")
      server = TCPServer.new("127.0.0.1", 0)
      expect(fault_of({ url: "local:#{place}/locks", options: { keys: 100 } })).to be_nil
      expect(File.exist?(place)).to be(false)
      url = "redis://127.0.0.1:#{server.addr[1]}"
      expect(fault_of({ url: url, options: { pool_size: 3 }, ttl: 7, wait: 1 })).to be_nil
      expect { server.accept_nonblock }.to raise_error(IO::WaitReadable)
      expect(fault_of({ store: -> { raise "called" } })).to be_nil
      expect(fault_of({ store: Plock::Testing::MemoryStore.new, url: "redsi://h" })).to be_nil
    ensure
      server&.close
    end
  end
end
