# frozen_string_literal: true

require "spec_helper"
require "json"
require "support/command_line"
require "support/documents"
require "support/sentinels"

# Tests the permissions that docs/operations.md lists for the users of servers and sentinels.
RSpec.describe "Users with few rights at sentinels and their servers", :slow, :alone,
               needs: Support::RedisServer::PROGRAM do
  include Support::CommandLine

  smallest = Support::Documents.acl.drop(5)
  role = Support::Documents.rights("With [Sentinel]")
  asking = Support::Documents.rights("A user of the sentinels needs")
  examining = Support::Documents.rights("For `plock doctor`")

  before(:all) { @group = Support::Sentinels.new }
  after(:all) { @group.stop }

  attr_reader :group

  let(:key) { "rights:#{SecureRandom.hex(8)}" }
  let(:query) { "sentinel_username=asker&sentinel_password=pw" }
  let(:store) do
    options = { sentinel_username: "asker", sentinel_password: "pw", unavailable_timeout: 30 }
    used(open_store(group.url(user: "locks:pw"), **options))
  end

  before do
    admit(group.servers, "locks", *smallest, *role)
    admit(group.sentinels, "asker", *asking)
    [*group.servers, *group.sentinels].each { |one| one.call("ACL", "LOG", "RESET") }
  end

  def admit(servers, name, *rules)
    servers.each { |one| one.call("ACL", "SETUSER", name, "reset", "on", ">pw", *rules) }
  end

  # The denied commands except CLIENT SETNAME, which Redis 6 reports without its subcommand.
  def denied
    entries = [*group.servers, *group.sentinels].flat_map { |one| one.call("ACL", "LOG") }
    entries.map { |entry| entry.is_a?(Hash) ? entry : entry.each_slice(2).to_h }
           .map { |entry| entry.fetch("object") } - %w[client|setname client]
  end

  # The lock is acquired, awaited, handed over and released.
  def use(key)
    lease = store.acquire(key, ttl: 60, wait: 20)
    waiting = background { store.acquire(key, ttl: 60, wait: 20, renew: true) }
    eventually { store.status(key).waiters.size == 1 }
    lease.release
    waiting.value
  end

  it "do everything, before and after a failover, with the rights that the documents list" do
    expect(use(key).release).to be(true)
    lease = store.acquire(key, ttl: 60)
    Support::Replication.await(group.primary, 2)
    group.fail_over
    eventually(20.0) { lease.extend }
    expect(lease.release).to be(true)
    expect(use(key).release).to be(true)
    expect(denied).to be_empty
  end

  it "are told of a right that is missing" do
    admit(group.servers, "locks", *smallest)
    expect { store.acquire(key) }.to raise_error(Plock::PermissionError, /role/i)
    admit(group.servers, "locks", *smallest, *role)
    admit(group.sentinels, "asker", *asking.grep_v(/get-master/))
    expect { store.acquire(key) }.to raise_error(Plock::PermissionError, /sentinel/i)
  end

  def findings
    url = "#{group.url(user: "locks:pw")}?#{query}"
    output, errors, = plock("doctor", "--json", env: { "PLOCK_URL" => url })
    expect(errors).to be_empty
    JSON.parse(output)["findings"].to_h { |finding| [finding["check"], finding] }
  end

  it "suffice to plock doctor, with those that it needs at the sentinels" do
    admit(group.sentinels, "asker", *asking, *examining)
    expect(findings["trial"]).to include("level" => "fine")
    expect(findings["sentinels"]["message"]).not_to match(/permission|answer/)
  end
end
