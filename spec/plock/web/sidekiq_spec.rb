# frozen_string_literal: true

require "spec_helper"

# Each example runs in its own process, because Sidekiq::Web keeps its tabs as long as a process
# lives.
RSpec.describe "The tab of Plock::Web in Sidekiq::Web", needs: "redis-server" do
  # The start of each program, which acts as a signed-in user's browser.
  boot = <<~'RUBY'
    require "logger"
    require "stringio"
    require "rack/urlmap"
    require "rack/session"
    require "rack/test"
    require "plock/web/sidekiq"
    include Rack::Test::Methods

    Sidekiq.configure_client { |config| config.redis = { url: ENV.fetch("PLOCK_URL") } }
    LOG = StringIO.new

    def app
      @app ||= Rack::URLMap.new(
        "/jobs" => Rack::Session::Cookie.new(Sidekiq::Web, secret: "s" * 64)
      )
    end

    def check(what, found)
      found || abort("#{what}:\n#{last_response.status} #{last_response.body}")
    end
  RUBY

  define_method(:run_with) do |program|
    output, status = ruby(boot + program, env: { "PLOCK_URL" => redis_server.unix_url })
    expect(status).to be_success, output
  end

  it "shows the pages below Sidekiq's, with their own policy, and a way back" do
    run_with(<<~'RUBY')
      Plock::Web::Sidekiq.register(tab: "Held")
      get "/jobs/"
      check("tab", last_response.body.match?(%r{<a[^>]*href="/jobs/plock"[^>]*>\s*Held}))
      Plock.acquire("import", label: "nightly import") do |lease|
        100.times do # a busy machine counts the locks in more than one request
          get "/jobs/plock"
          break unless last_response.body.include?("Still counting")
        end
        check("overview", last_response.body.include?("By kind"))
        check("back", last_response.body.include?('href="/jobs/">← Sidekiq'))
        policy = last_response.headers["content-security-policy"]
        check("policy", policy.include?("default-src 'none'"))
        last_response.body.scan(%r{"(/jobs/plock/assets/[^"]+)"}).flatten.each do |path|
          get path
          check(path, last_response.ok?)
        end
        get "/jobs/plock/locks"
        check("list", last_response.body.include?("nightly import"))
        get "/jobs/plock/locks/#{lease.store_key}"
        check("lock", last_response.body.include?("/jobs/plock/locks/#{lease.store_key}/break"))
        get "/jobs/plock/doctor"
        check("doctor", last_response.ok?)
        last_response.body.scan(%r{href="(/jobs/plock[^"]*)"}).flatten.each do |path|
          get path
          check(path, last_response.ok?)
        end
      end
      get "/jobs/queues"
      check("Sidekiq's own", last_response.ok?)
    RUBY
  end

  # Plock::Web checks a token. Sidekiq 7 also checks one of its own, and Sidekiq 8.1 checks the
  # header in which the browser names the site.
  it "breaks a lock if both accept the form, and not if only one does" do
    run_with(<<~'RUBY')
      Plock::Web::Sidekiq.register(logger: Logger.new(LOG))
      lease = Plock.acquire("import", label: "nightly import", ttl: 60)
      path = "/jobs/plock/locks/#{lease.store_key}/break"
      browser = { "HTTP_SEC_FETCH_SITE" => "same-origin" }
      form = -> do
        get path
        last_response.body.scan(/type="hidden"\s+name="([^"]+)"\s+value="([^"]*)"/).to_h
      end
      post path, form.call.reject { |name, _| name == "authenticity_token" }
      check("refused", last_response.status == 403 && Plock.status("import").held?)
      post path, form.call.reject { |name, _| name == "token" }, browser
      check("refused", last_response.status == 403 && Plock.status("import").held?)
      post path, form.call, browser
      check("broken", last_response.status == 303 && !Plock.status("import").held?)
      check("place", last_response.location.start_with?("/jobs/plock/locks/plock:v1:"))
      check("log", LOG.string.include?("127.0.0.1 broke"))
    RUBY
  end

  it "asks an authorize: of its own" do
    run_with(<<~'RUBY')
      Plock::Web::Sidekiq.register(authorize: ->(_request, _action) {}, read_only: true)
      get "/jobs/plock"
      check("refused", last_response.status == 403)
    RUBY
  end
end
