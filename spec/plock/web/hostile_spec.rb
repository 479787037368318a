# frozen_string_literal: true

require "spec_helper"
require "support/web_pages"

# Other programs may write anything into the store, and viewers may send anything.
RSpec.describe Plock::Web, needs: "redis-server" do
  include Support::WebPages

  let(:server) { redis_server }
  let(:store) { open_store(server.unix_url, namespace: "shop") }
  let(:locks) { Support::WrittenLocks.new(server, store) }
  let(:pages) { described_class.new(store) }

  it "shows hostile text as text" do
    evil = %(<script>alert(1)</script>"'&\u202Eevil\u0007)
    name = locks.hold("a", host: "<i>h</i>", label: evil)
    locks.wait("a", host: "<i>w</i>", label: evil)
    ["/", "/locks", "/locks/#{name}", "/locks/#{name}/break"].each do |path|
      get path
      expect(last_response.body).not_to match(/<script>a|<i>|[\u202E\a]/)
    end
    expect(page).to include %(<script>alert(1)</script>"'&\uFFFDevil\uFFFD)
    get "/locks", q: evil, namespace: %("><i>), sort: %("><i>)
    expect(code).to eq 200
    expect(last_response.body).not_to match(/<script>a|<i>/)
  end

  it "survives addresses that are none" do
    ["/locks?q=%FF", "/locks?q[]=a&page[]=2&store[]=", "/locks/%FF%FE", "/?store=%00",
     "/locks?name[a]=b", "/?a#{"[b]" * 200}=1", "/?a=1&a[b]=2"].each do |path|
      get path
      expect(code).to be_between(200, 404), "#{path}: #{code}"
    end
  end

  it "shows an over-long query as one that finds nothing" do
    get "/locks", q: "k" * 2_000
    expect(code).to eq 200
    expect(rows).to be_empty
  end

  it "reads no form of a viewer who may see nothing" do
    pages = described_class.new(store, authorize: ->(_request, _action) {})
    env = Rack::MockRequest.env_for("/locks", method: "POST")
    env.update("rack.input" => nil, "CONTENT_TYPE" => "multipart/form-data; boundary=x")
    status, = pages.call(env)
    expect(status).to eq 403 # an attempt to read a form from nil would fail
  end

  it "shows no password of a store" do
    away = open_store("redis://bob:pass%20word@127.0.0.1:1", unavailable_timeout: 0.05)
    mount(described_class.new(away))
    %w[/ /locks /doctor].each do |path|
      get path
      expect(page).to include "127.0.0.1"
      expect(last_response.body).not_to match(/pass.{1,3}word/)
    end
  end

  it "answers requests that cannot be read" do
    ["/locks?#{"a=1&" * 6_000}", "/locks/%zz", "/locks/%25zz%00"].each do |address|
      path, query = address.split("?")
      get "/", {}, "PATH_INFO" => path, "QUERY_STRING" => query.to_s
      expect(code).to be_between(400, 404), "#{address[0, 20]}: #{code}"
    end
    post "/locks", "x" * 100, "CONTENT_TYPE" => "multipart/form-data; boundary=abc"
    expect(code).to eq 400
    get "/locks", {}, "HTTP_COOKIE" => "plock=%zz%FF; =; \xFF".b
    expect(code).to eq 200
  end

  it "shows the others if a waiter's ticket is no time" do
    name = locks.hold("a", label: "first")
    server.call("ZADD", "plock:1:{#{name}}:queue", "inf", "h 1 1 - later value")
    get "/locks"
    expect(rows).to eq ["first"]
    get "/locks/#{name}"
    expect(page).to match(/Waiters.* later .* – /)
  end

  it "shows the others if a key has another type, and says how many it cannot read" do
    locks.hold("a", label: "first")
    foreign = store.config.store_key("b", Plock::Locking::Kind::SEMAPHORE)
    server.call("SET", foreign, "of another program")
    %w[/ /locks].each do |path|
      get path
      expect(page).to match(/first .*|held 1 /).and match(
        /1 key could not be read.*#{foreign}: .*WRONGTYPE/
      )
    end
    locks.hold("b", label: "second")
    get "/locks", q: "b"
    expect([code, rows]).to match [200, include("second")]
    get "/locks/#{foreign}"
    expect([code, page]).to match [502, /answered with an error.*WRONGTYPE/]
  end
end
