# frozen_string_literal: true

require "spec_helper"
require "logger"
require "stringio"
require "support/web_pages"

# Tests the permissions to see the pages and to break a lock.
RSpec.describe Plock::Web do
  include Support::WebPages

  let(:store) { open_store("memory:") }
  let(:log) { StringIO.new }
  let(:asked) { [] }
  let(:options) { {} }
  let(:pages) do
    described_class.new(store, authorize: authorize, logger: Logger.new(log), **options)
  end
  let(:authorize) { ->(request, action) { asked << [request.path_info, action] && "alice" } }
  let!(:lease) { store.acquire("import", label: "nightly import", ttl: 60) }
  let(:path) { "/locks/#{lease.store_key}" }

  after { lease.release unless lease.lost? }

  # The fields that the viewer's browser would send.
  def form(**changes)
    get "#{path}/break"
    { token: hidden("token"), seen: hidden("seen") }.merge(changes)
  end

  def held? = store.status("import").held?

  describe "break" do
    it "asks first, naming holder and label, and then takes the key away and logs who did it" do
      fields = form
      expect(page).to match(/pid #{Process.pid} holds \h{12} with the label nightly import/)
      expect(page).to include lease.fence.to_s
      expect(held?).to be true
      post "#{path}/break", fields, "HTTP_SEC_FETCH_SITE" => "same-origin"
      expect(code).to eq 303
      expect(held?).to be false
      expect(log.string.lines.size).to eq 1
      expect(log.string).to match(/alice broke #{lease.store_key} .*label "nightly import"/)
      expect { lease.extend(ttl: 60) }.to raise_error(Plock::LeaseLost)
      follow_redirect!
      expect(page).to include("The lock was broken.", "No process holds this key.")
    end

    it "tells the log the digest of the key, and not its name" do
      get "#{path}/break", name: "import"
      expect(page).to match(/holds import with the label nightly import/)
      post "#{path}/break", name: "import", token: hidden("token"), seen: hidden("seen")
      expect(held?).to be false
      expect(log.string).to match(/alice broke #{lease.store_key} /)
      expect(log.string).not_to include '"import"'
    end

    it "sees a change of the holder in a store without fences" do
      allow(store).to receive(:examine).and_wrap_original do |examine, *arguments|
        holders, waiters = examine.call(*arguments)
        [holders.map { |holder| holder.dup.tap { |copy| copy.fence = nil } }, waiters]
      end
      fields = form
      lease.release
      other = Thread.new { store.acquire("import", label: "another import", ttl: 60) }.value
      post "#{path}/break", fields
      expect([code, held?]).to eq [409, true]
      other.release
    end

    it "is done by POST only" do
      get "#{path}/break", form
      expect(held?).to be true
      [path, "/", "/locks", "/doctor"].each do |other|
        post other, form
        expect([code, last_response.headers["allow"]]).to eq [405, "GET, HEAD"]
      end
      delete "#{path}/break", form
      expect([code, held?]).to eq [405, true]
    end

    it "refuses a form without this browser's token" do
      good = form
      [{ token: nil }, { token: "0" * 64 }, { token: ["x"] }].each do |wrong|
        post "#{path}/break", good.merge(wrong).compact
        expect([code, held?]).to eq [403, true]
        expect(page).to include "its token is not that of this browser"
      end
      clear_cookies
      post "#{path}/break", good
      expect([code, held?]).to eq [403, true]
      expect(log.string).to eq ""
    end

    it "refuses a form of another site, even with the right token" do
      [{ "HTTP_SEC_FETCH_SITE" => "cross-site" }, { "HTTP_SEC_FETCH_SITE" => "same-site" },
       { "HTTP_SEC_FETCH_SITE" => "none" }, { "HTTP_ORIGIN" => "https://evil.example" },
       { "HTTP_ORIGIN" => "null" }].each do |headers|
        post "#{path}/break", form, headers
        expect([code, held?]).to eq [403, true]
        expect(page).to include "another site sent it"
      end
      same = { "HTTP_ORIGIN" => "http://example.org", "HTTP_HOST" => "example.org" }
      post "#{path}/break", form, same
      expect([code, held?]).to eq [303, false]
    end

    it "keeps its token in a cookie that no script and no other site can use" do
      get "#{path}/break"
      expect(last_response.headers["set-cookie"])
        .to match(%r{\Aplock=\h{64}; path=/; httponly; samesite=strict\z})
      get "#{path}/break"
      expect(last_response.headers["set-cookie"]).to be_nil
      clear_cookies
      get "#{path}/break", {}, "HTTPS" => "on"
      expect(last_response.headers["set-cookie"]).to match(/\A__Host-plock=.*; secure\z/)
    end

    it "breaks one holder, and not the next one, if two viewers confirm at the same time" do
      fields, checked, go = form, Queue.new, Queue.new
      cookie = "plock=#{fields[:token]}"
      allow(store).to receive(:break).and_wrap_original do |original, *arguments|
        checked << true
        go.pop
        original.call(*arguments)
      end
      waiter = background { store.acquire("import", wait: 5, ttl: 60) }
      eventually { store.status("import").waiters.any? }
      posts = Array.new(2) do
        background do
          Rack::MockRequest.new(pages)
                           .post("#{path}/break", params: fields, "HTTP_COOKIE" => cookie)
        end
      end
      2.times { checked.pop }
      2.times { go << true }
      expect(posts.map { |post| post.value.status }).to contain_exactly(303, 409)
      expect(waiter.value.release).to be true
      expect(log.string.lines.size).to eq 1
    end

    it "leaves the next holder alone if the key changes hands between the check and the break" do
      other = nil
      allow(store).to receive(:break).and_wrap_original do |original, *arguments|
        lease.release
        other = Thread.new { store.acquire("import", label: "another import", ttl: 60) }.value
        original.call(*arguments)
      end
      post "#{path}/break", form
      expect([code, other.release]).to eq [409, true]
      expect(page).to include("The holder has changed", "another import")
      expect(log.string).to eq ""
    end

    it "does nothing if the holder has changed since the confirmation" do
      fields = form
      lease.release
      other = store.acquire("import", label: "another import", ttl: 60)
      post "#{path}/break", fields
      expect([code, held?]).to eq [409, true]
      expect(page).to include("The holder has changed", "another import")
      other.release
      post "#{path}/break", fields
      expect([code, page]).to match [409, /Nothing to break/]
    end

    it "takes a semaphore away from all its holders" do
      semaphore = store.semaphore("api", permits: 2)
      leases = Array.new(2) { |number| semaphore.acquire(label: "call #{number}", ttl: 60) }
      @path = "/locks/#{leases.first.store_key}"
      get "#{@path}/break"
      expect(page).to include("They lose the key", "call 0", "call 1")
      post "#{@path}/break", token: hidden("token"), seen: hidden("seen")
      expect(semaphore.status).not_to be_held
    end

    it "writes a hostile label into one line of the log" do
      lease.release
      evil = store.acquire("import", label: "a\nalice broke all \e[31m", ttl: 60)
      post "#{path}/break", form
      expect(log.string.lines.size).to eq 1
      expect(log.string).not_to include "\e"
      expect(evil).to be_lost
    end

    context "with read_only" do
      let(:options) { { read_only: true } }

      it "is off, and no page has a link to it" do
        get path
        expect(last_response.body).not_to include "/break"
        get "#{path}/break"
        expect([code, page]).to match [403, /plock break/]
        token = "a" * 64
        set_cookie "plock=#{token}"
        post "#{path}/break", token: token, seen: lease.fence.to_s
        expect([code, held?]).to eq [403, true]
      end
    end
  end

  describe "authorize:" do
    it "is asked for each page, and for each break" do
      ["/", "/locks", path, "/doctor", "/nothing"].each { |page| get page }
      expect(asked.map(&:last)).to all(eq :view)
      expect(asked.size).to eq 5
      asked.clear
      post "#{path}/break", form
      expect(asked.map(&:last)).to eq %i[view break view break]
    end

    context "when it lets see, but not break" do
      let(:authorize) { ->(_request, action) { action == :view } }

      it "refuses the confirmation and the break" do
        get path
        expect(code).to eq 200
        get "#{path}/break"
        expect([code, page]).to match [403, /You may not break locks here/]
        set_cookie "plock=#{"a" * 64}"
        post "#{path}/break", token: "a" * 64, seen: lease.fence.to_s
        expect([code, held?]).to eq [403, true]
      end
    end

    context "when it refuses" do
      let(:authorize) { ->(_request, _action) {} }

      it "shows nothing of the store" do
        ["/", "/locks", path, "#{path}/break", "/doctor"].each do |page|
          get page
          expect(code).to eq 403
          expect(last_response.body).not_to match(/nightly|memory:/)
          expect(last_response.body).to include "authorize"
        end
      end
    end

    context "when it does not name the user" do
      let(:authorize) { ->(_request, _action) { true } }

      it "writes a hostile name into one line of the log" do
        post "#{path}/break", form, "REMOTE_USER" => "bob\nalice\u2028broke all".b
        expect(log.string.lines.size).to eq 1
        expect(log.string).to include "bob?alice?broke all"
      end

      it "logs a name of any bytes beside a label of any characters" do
        { "J\u00fcrgen" => "J\u00fcrgen", "\xFFbob" => "\uFFFDbob" }.each do |bytes, shown|
          again = store.acquire("report", label: "n\u00e4chtlich", ttl: 60)
          at = "/locks/#{again.store_key}/break"
          get at
          fields = { token: hidden("token"), seen: hidden("seen") }
          post at, fields, "REMOTE_USER" => bytes.b
          expect([code, store.status("report").held?]).to eq [303, false]
          expect(log.string).to include "#{shown} broke"
        end
      end

      it "logs REMOTE_USER, else the address" do
        post "#{path}/break", form, "REMOTE_USER" => "bob"
        expect(log.string).to include "bob broke"
        again = store.acquire("import", ttl: 60)
        post "#{path}/break", form, "REMOTE_ADDR" => "192.0.2.7"
        expect(log.string).to include "192.0.2.7 broke"
        expect(again).to be_lost
      end
    end

    it "is required in production" do
      %w[RAILS_ENV RACK_ENV APP_ENV].each do |name|
        before, ENV[name] = ENV.fetch(name, nil), "production"
        expect { described_class.new(store) }
          .to raise_error(Plock::ConfigurationError, /#{name} says production.*authorize:/)
        expect(described_class.new(store, authorize: authorize)).to respond_to(:call)
      ensure
        ENV[name] = before
      end
      expect(described_class.new(store)).to respond_to(:call)
    end
  end

  it "refuses arguments that cannot be right" do
    { { authorize: true } => /authorize must be a callable/, { refresh: 0 } => /refresh must be/,
      { stores: {} } => /needs a store/, { stores: "redis://x" } => /a store must be open/ }
      .each do |wrong, message|
        stores = wrong.fetch(:stores, store)
        expect { described_class.new(stores, **wrong.reject { |name, _| name == :stores }) }
          .to raise_error(Plock::ConfigurationError, message)
      end
  end

  it "takes the default store, whenever that is configured" do
    mount(described_class.new)
    Plock.configure { |c| c.url = "memory:" }
    Plock.acquire("k", label: "of the default store") { get "/locks" }
    expect(rows).to eq ["of the default store"]
  ensure
    Plock.reset!
  end
end
