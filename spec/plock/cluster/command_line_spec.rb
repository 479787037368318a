# frozen_string_literal: true

require "spec_helper"
require "json"
require "support/cluster"
require "support/command_line"
require "support/documents"

RSpec.describe "The command line with a Redis Cluster", :slow,
               needs: Support::RedisServer::PROGRAM do
  include Support::CommandLine

  before(:all) { @cluster = Support::Cluster.new }

  after(:all) { @cluster.stop }

  attr_reader :cluster

  let(:key) { "command:#{SecureRandom.hex(8)}" }
  let(:store) { used(open_store(cluster.url)) }
  let(:primary) { cluster.owner(store.status(key).store_key) }
  let(:node) { "127.0.0.1:#{primary.port}" }

  def run(*words, url: cluster.url) = plock(*words, env: { "PLOCK_URL" => url })

  def findings(url = cluster.url)
    output, = run("doctor", "--json", url: url)
    JSON.parse(output)["findings"].to_h { |one| [one["check"], one] }
  end

  def each_node(*words)
    cluster.servers.map { |one| one.call("CONFIG", "SET", *words) }
  end

  it "lists the locks of all primaries, with their nodes" do
    leases = Array.new(9) { |number| discard(store.acquire("listed #{number}", ttl: 60), :release) }
    places = leases.map { |lease| "127.0.0.1:#{cluster.owner(lease.store_key).port}" }
    expect(places.uniq.size).to be > 1
    listed = JSON.parse(run("list", "--json").first)
    listed = listed.to_h { |one| one.values_at("store_key", "node") }
    expect(listed).to include(leases.map(&:store_key).zip(places).to_h)
    table = run("list").first.lines
    leases.zip(places) do |lease, place|
      expect(table.grep(/#{Regexp.escape(lease.store_key)}/)).to match([/ #{place}$/])
    end
    expect(table.first).to match(/WAITING +NODE$/)
  end

  it "finds a lock by the digest that logs and events have, which has no hash tag" do
    lease = discard(store.acquire(key, ttl: 60), :release)
    [Plock.digest(key)[0, 12], Plock.digest(key), "plock:v1:{"].each do |part|
      expect(run("list", "*#{part}*").first).to include(lease.store_key)
    end
  end

  it "shows them with their nodes in plock top, too" do
    leases = Array.new(6) { |number| discard(store.acquire("shown #{number}", ttl: 60), :release) }
    table = run("top").first.lines
    expect(table.first).to match(/STORE KEY +NODE$/)
    leases.each do |lease|
      place = "127.0.0.1:#{cluster.owner(lease.store_key).port}"
      expect(table.grep(/#{Regexp.escape(lease.store_key)}/)).to match([/ #{place}$/])
    end
  end

  it "shows the node of a key that is held, and of one that is free" do
    lease = store.acquire(key, ttl: 60)
    expect(run("status", key).first).to match(/held since .* 0 waiting, at node #{node}, .* left/)
    expect(JSON.parse(run("status", "--json", key).first)).to include("node" => node)
    lease.release
    expect(run("status", key).first).to eq("#{key.inspect}: free, at node #{node}\n")
  end

  it "names the node in the message of a call that did not get the lock" do
    lease = store.acquire(key, ttl: 60)
    expect { store.acquire(key, wait: 0.1) }
      .to raise_error(Plock::TimeoutError, /held since .*, at node #{node}/)
    lease.release
  end

  it "breaks a lock on any node" do
    leases = Array.new(6) { |number| store.acquire("#{key} #{number}", ttl: 60) }
    leases.each_with_index do |lease, number|
      output, _, status = run("break", "--yes", "#{key} #{number}")
      expect([output, status.exitstatus]).to match([/taken away/, 0])
      expect(lease.release).to be(false)
    end
  end

  it "runs a command under a lock, and tells another one who holds it" do
    lease = store.acquire(key, ttl: 60, label: "nightly")
    output, errors, status = run("run", "--wait", "0.1", key, "--", "true")
    expect([output + errors, status.exitstatus]).to match([/nightly/, be_positive])
    lease.release
    expect(run("run", key, "--", "true").last.exitstatus).to eq(0)
  end

  describe "doctor" do
    before(:all) { @cluster.await_named_replicas }

    it "examines the primaries, and tries a lock at each" do
      expect(findings).to include(
        "role" => a_hash_including("level" => "fine", "message" => "a primary of a cluster"),
        "trial" => a_hash_including("level" => "fine"),
        "rights" => a_hash_including("remedy" => /\|myid \+asking( \+ssubscribe \+spublish)?$/),
        "replication" => a_hash_including("level" => "danger", "message" => /\A1 replica, which/),
        "node-clocks" => a_hash_including("level" => "fine", "message" => /apart/)
      )
    end

    it "tells what a failover loses if nothing is wrong with the nodes" do
      each_node("cluster-require-full-coverage", "no")
      expect(findings["cluster"]).to include(
        "level" => "fine",
        "message" => /\A3 primaries with replicas\. .* silent for 10\.0 s.*A failover loses/
      )
    ensure
      each_node("cluster-require-full-coverage", "yes")
    end

    it "warns that a part that is away takes all keys with it" do
      expect(findings["cluster"]).to include(
        "level" => "advice", "message" => /\Acluster-require-full-coverage yes/,
        "remedy" => /CONFIG SET cluster-require-full-coverage no/
      )
    end

    it "names the node whose settings endanger locks" do
      configure("allkeys-lru", "100mb")
      expect(findings["eviction"]).to include(
        "level" => "danger", "message" => /\A#{node}: allkeys-lru: when memory is short/
      )
    ensure
      configure("noeviction", "0")
    end

    def configure(policy, memory)
      primary.call("CONFIG", "SET", "maxmemory-policy", policy)
      primary.call("CONFIG", "SET", "maxmemory", memory)
    end

    describe "with a user of its own" do
      before { cluster.servers.each { |one| admit(one) } }

      let(:url) { cluster.url(user: "few:pw") }

      def admit(server, *rules) =
        server.call("ACL", "SETUSER", "few", "reset", "on", ">pw", "~*", "&*", "+@all", *rules)

      it "names the right that is missing at one node" do
        admit(primary, "-zadd")
        expect(findings(url)["trial"])
          .to include("level" => "danger", "message" => /#{node}.*zadd/i)
      end

      it "names the primary that refuses the credentials" do
        admit(primary, "resetpass", ">other")
        expect(findings(url)["cluster"]).to include(
          "level" => "danger", "message" => /\A#{node} does not answer this user/
        )
      end

      it "names the replica that refuses the credentials, or has other rights" do
        replica = cluster.replica_of(primary)
        admit(replica, "resetpass", ">other")
        expect(findings(url)["cluster"]).to include(
          "level" => "danger",
          "message" => /\Athe replica 127\.0\.0\.1:#{replica.port} refuses the credentials/
        )
        admit(replica, "-evalsha")
        expect(findings(url)["cluster"]["message"])
          .to match(/127\.0\.0\.1:#{replica.port} has other rights than its primary/)
      end

      it "looks for the replicas where a store would after a failover", redis_version: "7" do
        announce("localhost")
        replica = cluster.replica_of(primary)
        admit(replica, "resetpass", ">other")
        expect(findings(url)["cluster"]["message"])
          .to match(/\Athe replica localhost:#{replica.port} refuses the credentials/)
      ensure
        announce("127.0.0.1")
      end

      # Has each node announce a name or an address. Nodes learn the names of others from messages,
      # so this waits until all nodes know them.
      def announce(host)
        kind = host == "localhost" ? "hostname" : "ip"
        each_node("cluster-announce-hostname", "localhost")
        each_node("cluster-preferred-endpoint-type", kind)
        cluster.await { cluster.servers.all? { |one| named(one).uniq == [host] } }
      end

      def named(server)
        server.call("CLUSTER", "SLOTS").flat_map { |range| range.drop(2).map(&:first) }
      end
    end
  end

  describe "with the rights that the documents list" do
    let(:url) { cluster.url(user: "fewest:pw") }

    before { admit(*Support::Documents.rights("With a [Cluster]")) }

    def admit(*rights)
      rules = Support::Documents.acl.drop(5) + rights
      cluster.servers.each do |one|
        one.call("ACL", "SETUSER", "fewest", "reset", "on", ">pw", *rules)
        one.call("ACL", "LOG", "RESET")
      end
    end

    # The denied commands, except CLIENT SETNAME, which a user need not be allowed. Redis 6 reports
    # it as CLIENT, without the subcommand.
    def denied
      entries = cluster.servers.flat_map { |one| one.call("ACL", "LOG") }
      entries.map { |entry| entry.is_a?(Hash) ? entry : entry.each_slice(2).to_h }
             .map { |entry| entry.fetch("object") } - %w[client|setname client]
    end

    def use
      store = used(open_store(url))
      lease = store.acquire(key, ttl: 30, wait: 5)
      waiting = background { store.acquire(key, ttl: 30, wait: 10, renew: true) }
      eventually { store.status(key).waiters.size == 1 }
      lease.release
      expect(waiting.value.extend).to be_valid
      expect(store.each_lock.map(&:store_key)).to include(waiting.value.store_key)
      waiting.value.release
    end

    it "does everything, and only asks for messages in shards without the right to them" do
      use
      expect(denied - %w[ssubscribe spublish]).to be_empty
    end

    it "extends and releases a lease whose slot moves" do
      lease = used(open_store(url)).acquire(key, ttl: 60)
      lock = lease.store_key
      to = (cluster.primaries - [cluster.owner(lock)]).first
      cluster.move(cluster.slot(lock), to, keys: [lock]) { expect(lease.extend).to be(lease) }
      expect(lease.release).to be(true)
      expect(denied - %w[ssubscribe spublish]).to be_empty
    end

    it "does everything without a refusal if it has those of Redis 7, too", redis_version: "7" do
      admit(*Support::Documents.rights("With a [Cluster]"),
            *Support::Documents.rights("On Redis 7 or later"))
      use
      expect(denied).to be_empty
    end

    it "is enough for plock doctor, which tries a lock" do
      expect(findings(url)).to include(
        "trial" => a_hash_including("level" => "fine"),
        "rights" => a_hash_including("level" => "fine")
      )
    end
  end
end
