# frozen_string_literal: true

require "spec_helper"
require "redis-clustering"
require "support/cluster"
require "support/sidekiq_jobs"
require "support/web_pages"
require "parse/lock"

# Tests the interfaces above a store on a Redis Cluster.
RSpec.describe "On a Redis Cluster", :slow, needs: Support::RedisServer::PROGRAM do
  before(:all) { @cluster = Support::Cluster.new(replicas: 0) }

  after(:all) { @cluster.stop }

  attr_reader :cluster

  let(:key) { "front door:#{SecureRandom.hex(8)}" }
  let(:store) { used(open_store(cluster.url)) }
  let(:urls) { cluster.servers.map(&:url) }

  def node_of(name) = store.status(name).node

  describe "Parse::Lock" do
    before { Parse.synchronize_create_secret = "the secret of all processes" }

    after do
      Parse.synchronize_create_store = Parse.synchronize_create_secret = nil
      Parse::Lock.reset!
    end

    {
      "a URL" => ->(urls, cluster) { urls && cluster.url },
      "a redis-cluster-client object" => ->(urls, _) {
 RedisClient.cluster(nodes: urls).new_client },
      "a redis-clustering object" => ->(urls, _) { Redis::Cluster.new(nodes: urls) },
      "a ConnectionPool of these" => ->(urls, _) do
        ConnectionPool.new(size: 1) { Redis::Cluster.new(nodes: urls) }
      end
    }.each do |name, make|
      it "excludes another process with #{name}" do
        Parse.synchronize_create_store = make.call(urls, cluster)
        Parse::Lock.acquire(key) do
          digest = Plock.store_key("parse-stack:lock:v1:", key, "the secret of all processes")
          expect(cluster.owner(digest).call("EXISTS", digest)).to eq(1)
          expect(in_child { refused_within_parse }).to be(true)
        end
        expect(Parse::Lock.acquire(key, on_degraded: :raise) { :entered }).to eq(:entered)
      end
    end
  end

  def refused_within_parse
    Parse::Lock.acquire(key, wait: 0.1, on_degraded: :raise) { false }
  rescue Parse::Lock::TimeoutError
    true
  end

  it "a client's credentials are taken over" do
    cluster.servers.each do |one|
      one.call("ACL", "SETUSER", "app", "reset", "on", ">pw", "~*", "&*", "+@all")
    end
    client = RedisClient.cluster(nodes: urls, username: "app", password: "pw").new_client
    used(Plock::Store.open(client)).acquire(key) do
      users = cluster.servers.flat_map { |one|
 one.call("CLIENT", "LIST").scan(/name=plock.* user=(\S+)/) }
      expect(users.flatten.uniq).to eq(["app"])
    end
  end

  describe "a guard" do
    include_context "with Sidekiq"

    before { Plock.configure { |c| c.url = cluster.url } }

    it "keeps a job from running twice at once, whatever the node of its key" do
      job_class(key: ->(number) { "job #{number}" }, on_conflict: :discard)
      nodes = Array.new(9) { |number| Plock.status("job #{number}").node }
      expect(nodes.uniq.size).to be > 1
      Plock.acquire("job 0") do
        9.times { |number| SomeJob.perform_async(number) }
        expect(work_all).to be_empty
      end
      expect(done).to eq((1..8).map { |number| ["SomeJob", number] })
    end

    it "limits jobs by a semaphore" do
      job_class(key: "k", limit: 2, on_conflict: :discard)
      Plock.semaphore("k", permits: 2).acquire do
        SomeJob.perform_async(1)
        expect(work_all).to be_empty
        expect(Plock.each_lock.count).to be >= 1
      end
      expect(done).to eq([["SomeJob", 1]])
    end
  end

  describe "the web pages" do
    include Support::WebPages

    let(:pages) { Plock::Web.new(store, authorize: ->(_, _) { "alice" }) }
    let!(:leases) do
      Array.new(6) { |number| discard(store.acquire("#{key}:#{number}", ttl: 60), :release) }
    end

    it "list the locks of all nodes with their nodes, and sort by these" do
      places = leases.to_h { |lease| [lease.store_key, node_of(lease.key)] }
      expect(places.values.uniq.size).to be > 1
      get "/locks", sort: "node", q: "plock:v1"
      cells = last_response.body.scan(%r{data-label="Node" class="whole">([^<]*)<}).flatten
      expect(cells).to eq(places.values.sort)
      expect(last_response.body).to match(/aria-sort="ascending"[^>]*><a\s+href="[^"]*">Node/)
      get "/locks/#{Rack::Utils.escape_path(leases.first.store_key)}"
      expect(page).to include("Node #{places[leases.first.store_key]}")
    end

    it "find a lock by the digits that they show, and by its store key" do
      digest = Plock.digest(leases.first.key)
      get "/locks"
      expect(page).to include(digest[0, 12])
      [digest[0, 12], digest, leases.first.store_key].each do |words|
        get "/locks", q: words
        expect(page).to include("1 lock ")
      end
    end

    it "break a lock on any node" do
      leases.each do |lease|
        node = node_of(lease.key)
        expect(warnings { post_break(lease) }).to match([/alice broke .*, at node #{node}$/])
        expect([code, lease.release]).to eq([303, false])
      end
    end
  end

  describe "several keys" do
    let(:keys) { Array.new(6) { |number| "#{key}:#{number}" } }

    it "at all nodes are acquired in one order, whatever the caller's, so none waits for good" do
      expect(keys.map { |name| node_of(name) }.uniq.size).to be > 1
      threads = Array.new(6) do |number|
        background do
          8.times { store.acquire_all(keys.rotate(number), wait: 30) { |leases| leases.size } }
          :done
        end
      end
      expect(threads.map(&:value)).to all(eq(:done))
      expect(keys).to all(satisfy { |name| !store.status(name).held? })
    end

    it "are held together or not at all, also when one of their slots moves meanwhile" do
      slot = cluster.slot(store.status(keys[2]).store_key)
      to = (cluster.primaries - [cluster.owner_of(slot)]).first
      store.acquire_all(keys, ttl: 30) do |leases|
        cluster.move(slot, to)
        expect(leases).to all(be_valid)
        expect(leases.map(&:extend)).to all(be_valid)
      end
      expect(keys).to all(satisfy { |name| !store.status(name).held? })
      cluster.move(slot, (cluster.primaries - [to]).first) do
        expect(store.acquire_all(keys, ttl: 30, wait: 5) { :entered }).to eq(:entered)
      end
    end

    it "are given back if one of them is held at the last node" do
      held = store.acquire(keys.max_by { |name| store.status(name).store_key }, ttl: 30)
      expect(store.try_acquire_all(keys) { :entered }).to be_nil
      expect(keys.count { |name| store.status(name).held? }).to eq(1)
      held.release
    end
  end
end
