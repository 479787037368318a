# frozen_string_literal: true

require "spec_helper"
require "support/web_pages"

RSpec.describe Plock::Web, needs: "redis-server" do
  include Support::WebPages

  let(:server) { redis_server }
  let(:store) { open_store(server.unix_url, namespace: "shop") }
  let(:locks) { Support::WrittenLocks.new(server, store) }
  let(:options) { {} }
  let(:pages) { described_class.new(store, **options) }

  semaphore_of_two = ->(locks) do
    2.times { |number| locks.share("api", "s", host: "h#{number}", pid: number, label: "call") }
    locks.wait("api", share: "s2", host: "h9", pid: 9, label: "late", since: 30)
  end

  describe "overview" do
    it "counts what is held and waited for, by kind and by namespace" do
      locks.hold("a", label: "first")
      locks.hold("b", kind: Plock::Locking::Kind::ONCE)
      locks.wait("a", pid: 2, since: 75)
      semaphore_of_two.call(locks)
      get "/"
      expect(code).to eq 200
      expect(page).to match(/held 3 .*waiting 2 .*longest wait 1 min 15 s .*at their limit 1 /m)
      expect(page).to match(/By kind .*lock 1 1 .*once 1 0 .*semaphore 1 1/m)
      expect(page).to match(/By namespace .*shop 3 2/m)
      expect(page).to match(/Longest waits\s+first\s+1 waiter, the first for 1 min 15 s/m)
    end

    it "shows other namespaces only if it is told to" do
      locks.hold("a")
      other = Support::WrittenLocks.new(server, open_store(server.unix_url, namespace: "bank"))
      name = other.hold("b", label: "of the bank")
      get "/"
      expect(page).to include "held 1 "
      expect(last_response.body).not_to include "bank"
      get "/locks/#{name}"
      expect(code).to eq 404

      mount(described_class.new(store, all_namespaces: true))
      get "/"
      expect(page).to match(/By namespace .*bank 1 0 .*shop 1 0/m)
      get "/locks?namespace=bank"
      expect(rows).to eq ["of the bank"]
    end

    it "shows stores side by side, even if one of them does not answer" do
      away = open_store("redis://127.0.0.1:1", unavailable_timeout: 0.05)
      locks.hold("a", label: "first")
      mount(described_class.new({ "main" => store, "reports" => away }))
      get "/"
      expect(code).to eq 200
      expect(page).to match(/main .*held 1 .*reports .*This store does not answer/m)
      get "/locks?store=main"
      expect(rows).to eq ["first"]
      expect(last_response.body).to match(%r{href="/locks/plock[^"]*store=main})
      get "/locks?store=reports"
      expect(code).to eq 503
      expect(page).to include "plock doctor"
      get "/locks?store=none"
      expect(code).to eq 404
    end

    it "asks several stores at the same time" do
      arrived, all_there = Queue.new, Queue.new
      stores = %w[a b c].to_h { |name| [name, open_store("memory:")] }
      stores.each_value do |each|
        allow(each).to receive(:list_keys) { arrived << true && all_there.pop && [[], nil] }
      end
      answer = background { described_class.new(stores).call(Rack::MockRequest.env_for("/")) }
      Timeout.timeout(10) { 3.times { arrived.pop } }
      3.times { all_there << true }
      expect(answer.value.first).to eq 200
    end

    it "draws what its own surveys saw" do
      source = pages.sources.first
      [[3, 5], [7, 2]].each_with_index do |(held, waiting), number|
        source.history.add(
          instance_double(
            Plock::Survey::Snapshot, at: Time.now - 9 + number, held: held, waiting: waiting
          )
        )
      end
      get "/"
      expect(last_response.body.scan("<polyline").size).to eq 2
      expect(last_response.body).to include "Keys that are held in the last"
    end

    it "says what to do if nothing is held" do
      get "/"
      expect(page).to include "No key is held in the namespace shop."
      get "/locks"
      expect(page).to include "plock run demo -- sleep 60"
    end
  end

  describe "list" do
    it "finds by the real key, label and host, of any kind" do
      locks.hold("invoice:7", host: "web-1", label: "PDF")
      locks.hold("invoice:8", host: "web-2", label: "Mail")
      semaphore_of_two.call(locks)
      { "invoice:7" => ["PDF"], "mail" => ["Mail"], "WEB-" => %w[Mail PDF], "api" => ["call"],
        "late" => ["call"], "invoice" => [] }.each do |query, found|
        get "/locks", q: query, sort: "label"
        expect(rows.sort).to eq(found.sort), "#{query}: #{rows}"
      end
      expect(page).to include "Nothing held fits."
      get "/locks", q: "invoice:7"
      expect(page).to match(/PDF\s+invoice:7\s/)
    end

    it "finds a key whose name begins and ends with a blank" do
      locks.hold(" zz ", label: "PDF")
      get "/locks", q: "zz"
      expect(rows).to be_empty
      get "/locks", q: " zz "
      expect(rows).to eq ["PDF"]
    end

    it "finds a key by its name even if no survey has come to it" do
      locks.hold("invoice:7", label: "PDF")
      empty = Plock::Survey::Snapshot.new([], at: Time.now, complete: false, rest: 9_000)
      allow(pages.sources.first.survey).to receive(:snapshot).and_return(empty)
      get "/locks", q: "invoice:7"
      expect(rows).to eq ["PDF"]
      expect(page).to include "Still counting: 9,000 keys"
    end

    it "says why no name is found if others use another secret" do
      get "/locks", q: "a"
      expect(page).to include "Nothing held fits."
      expect(page).not_to include "another secret"
      other = open_store(server.unix_url, namespace: "shop", secret: "the secret of the others")
      other.acquire("a") do |lease|
        get "/locks", q: "a name"
        expect(page).to include "Other processes hash the names of keys with another secret"
        post_break(lease)
        expect([code, page]).to match [409, /plock doctor/]
        expect(lease).not_to be_lost
      end
    end

    it "filters by kind, sorts by each column and turns round" do
      locks.hold("a", host: "h2", pid: 2, label: "b", since: 10, left_ms: 90_000)
      locks.hold("b", host: "h1", pid: 3, label: "a", since: 20, left_ms: 60_000)
      locks.hold("c", host: "h3", pid: 1, label: "c", since: 5, left_ms: 70_000,
                      kind: Plock::Locking::Kind::ONCE)
      locks.wait("a", since: 1)
      { "label" => %w[a b c], "host" => %w[a b c], "since" => %w[a b c], "left" => %w[a c b],
        "waiting" => %w[b a c], "kind" => %w[b a c] }.each do |order, sorted|
        get "/locks", sort: order
        sorted = rows if order == "kind" # two locks have the same kind, so their order is not fixed
        expect(rows).to eq(sorted), "#{order}: #{rows}"
        get "/locks", sort: order, dir: "desc"
        expect(rows).to eq(sorted.reverse), "#{order}: #{rows}"
      end
      get "/locks", kind: "once"
      expect(rows).to eq ["c"]
      get "/locks", sort: "nothing", kind: "nothing", page: "-3"
      expect(rows).to eq %w[b a c]
    end

    it "says by which column and in which direction it is sorted" do
      { "/locks" => %w[Waiting descending], "/locks?dir=desc" => %w[Waiting ascending],
        "/locks?sort=since" => ["Held for", "descending"],
        "/locks?sort=left" => %w[Left ascending],
        "/locks?sort=label&dir=desc" => %w[Label descending] }.each do |path, told|
        locks.hold("a") and get path
        sorted = last_response.body.scan(/aria-sort="(\w+)"[^>]*><a[^>]*>([^<]+)/)
        expect(sorted.map(&:reverse).reject { |_, way| way == "none" }).to eq [told]
      end
    end

    it "has pages of 50" do
      120.times { |number| locks.hold("k#{number}", label: format("%03d", number)) }
      # a request surveys for 0.1 s at most, which is too short on a busy machine
      eventually { get("/locks", sort: "label") && !page.include?("Still counting") }
      expect(rows).to eq(Array.new(50) { |number| format("%03d", number) })
      expect(page).to include "1 to 50 of 120"
      get "/locks", sort: "label", page: 3
      expect(rows.first).to eq "100"
      expect(rows.size).to eq 20
      get "/locks", sort: "label", page: 99
      expect(rows.first).to eq "100"
    end

    it "shows rows that are newer than its survey" do
      name = locks.hold("a", label: "first")
      locks.hold("b", label: "second")
      get "/locks"
      server.call("DEL", name)
      get "/locks"
      expect(rows).to eq ["second"]
    end
  end

  describe "one key" do
    it "shows holders with all facts, waiters in order, and what else the process holds" do
      name = locks.hold("a", host: "web-1", pid: 812, thread: 813, label: "nightly", since: 90)
      2.times { |number| locks.wait("a", host: "web-2", pid: 70 + number, since: 20 - number) }
      locks.hold("b", host: "web-1", pid: 812, label: "beside")
      locks.hold("c", host: "web-1", pid: 813, label: "of another process")
      get "/locks/#{name}"
      fence = store.status("a").fence
      expect(page).to match(
        /nightly web-1 812 813 \S+ \S+ UTC 1 min 30 s (?:59 min \d+ s|1 h) #{fence}/
      )
      expect(page).to match(/Waiters.*1\s+no label\s+web-2\s+70 .*2\s+no label\s+web-2\s+71 /m)
      expect(page).to match(/Also held by this process\s+beside/)
      expect(page).not_to include "of another process"
    end

    it "shows all holders of semaphores, and the modes of readers and writers" do
      semaphore_of_two.call(locks)
      get "/locks/#{store.config.store_key("api", Plock::Locking::Kind::SEMAPHORE)}"
      expect(page).to match(/held by 2 holders, 1 waiter.*Holders.*h0 .*h1 .*Waiters.*h9 /m)
      2.times { |number| locks.share("prices", "r", host: "r#{number}") }
      locks.wait("prices", share: "w", host: "w1")
      get "/locks/#{store.config.store_key("prices", Plock::Locking::Kind::READ_WRITE)}"
      expect(page).to match(/Mode.*r0 .*read .*r1 .*read .*w1 .*write/m)
    end

    it "shows two hundred waiters, and how many more there are" do
      name = locks.hold("a")
      203.times { |number| locks.wait("a", host: "w#{number}", pid: number + 1) }
      get "/locks/#{name}"
      expect(page).to match(/held by 1 process, 203 waiters .* w199 .* and 3 more/)
      expect(page).not_to include " w200 "
    end

    it "shows its name only to a viewer who knows it" do
      name = locks.hold("invoice:7", label: "PDF")
      get "/locks/#{name}"
      expect(page).not_to include "invoice:7"
      get "/locks/#{name}?name=invoice:8"
      expect(page).not_to include "invoice:8"
      get "/locks/#{name}?name=invoice:7"
      expect(page).to include "invoice:7"
    end

    it "shows circles of processes" do
      locks.hold("a", host: "h1", pid: 1, label: "one")
      name = locks.hold("b", host: "h2", pid: 2, label: "two")
      locks.wait("b", host: "h1", pid: 1, label: "one")
      locks.wait("a", host: "h2", pid: 2, label: "two")
      ["/", "/locks/#{name}"].each do |path|
        get path
        expect(page).to match(
          /wait for one another.*h1 · pid 1 \( one \) waits for \h+ , which h2/
        )
      end
    end

    it "says that a key is free, and knows no others" do
      get "/locks/#{store.config.store_key("free")}"
      expect([code, page]).to match [200, /No process holds this key./]
      ["/locks/plock:v1:shop:abc", "/locks/other", "/x", "/locks/a/b/c"].each do |path|
        get path
        expect(code).to eq 404
      end
    end
  end

  it "shows the doctor's findings, and acquires nothing for them" do
    store.status("used")
    server.call("CONFIG", "RESETSTAT")
    get "/doctor"
    expect(page).to match(/Danger Persistence.*Remedy:.*Advice Secret.*OK Version.*OK TLS/)
    expect(server.call("INFO", "commandstats")).not_to match(/cmdstat_(set|zadd|hset|del):/)
  end

  it "writes nothing into the store" do
    locks.hold("a")
    before = server.call("DBSIZE")
    %w[/ /locks /locks?q=a /doctor].each { |path| get path }
    expect(server.call("DBSIZE")).to eq before # not even a fingerprint of the secret was written
  end

  it "sends every page with a strict policy, and no script or style inside" do
    name = locks.hold("a", label: "first")
    ["/", "/locks", "/locks/#{name}", "/locks/#{name}/break", "/doctor", "/nothing"].each do |path|
      get path
      policy = last_response.headers["content-security-policy"]
      expect(policy).to include("default-src 'none'", "script-src 'self'", "frame-ancestors 'none'")
      expect(policy).not_to include "unsafe"
      expect(last_response.headers["cache-control"]).to eq "no-store"
      expect(last_response.body).not_to match(/ style=| on\w+=|<style|<script>|https?:/)
      head path
      expect(last_response.body).to eq ""
    end
  end

  it "serves its assets with a digest, to be kept" do
    get "/"
    assets = last_response.body.scan(%r{/assets/[^"]+})
    expect(assets.size).to eq 4
    assets.each do |path|
      get path
      expect(code).to eq 200
      expect(last_response.headers["cache-control"]).to include "immutable"
    end
    %w[/assets/../view.rb /assets/view.rb /assets/].each do |path|
      get path
      expect(code).to eq 404
    end
  end

  it "can be mounted at a path, which all links keep" do
    locks.hold("a", label: "first")
    pages = self.pages
    mount(Rack::URLMap.new("/admin/locks" => pages))
    %w[/admin/locks /admin/locks/ /admin/locks/locks].each do |path|
      get path
      expect(code).to eq 200
      links = last_response.body.scan(/(?:href|src|action)="([^"#]+)"/).flatten
      expect(links).to all(start_with("/admin/locks/"))
    end
  end

  it "says that a store cannot list, and still finds a key by its name" do
    allow(store).to receive(:list_keys).and_raise(Plock::UnsupportedError, "there is no list")
    locks.hold("a", label: "first")
    get "/"
    expect(page).to include("cannot list its locks", "there is no list", "Search for a key by its")
    get "/locks", q: "a"
    expect(rows).to eq ["first"]
    get "/locks"
    expect(code).to eq 501
  end
end
