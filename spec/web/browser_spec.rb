# frozen_string_literal: true

require "spec_helper"
require "logger"
require "time"
require "plock/web"
require "support/browser"
require "support/written_locks"

# The pages as a viewer sees and uses them. The screenshots are in tmp/screenshots.
RSpec.describe "The pages of Plock::Web in a browser", needs: "redis-server" do
  # Without this, `not_to have_css` would wait for the element until the timeout.
  include Capybara::RSpecMatchers

  before { skip "chromium not installed" unless Support::Browser.path }

  let(:server) { redis_server }
  let(:store) { open_store(server.unix_url, namespace: "shop", logger: logger) }
  let(:logger) { Logger.new(log) }
  let(:log) { StringIO.new }
  let(:locks) { Support::WrittenLocks.new(server, store) }
  let(:browser) { discard(Support::Browser.new(app), :close) }
  let(:refresh) { 3_600 }
  let(:app) { Plock::Web.new(store, refresh: refresh, authorize: ->(_, _) { "alice" }) }

  # Makes the locks of an online shop at night.
  def fill
    locks.hold("nightly-import", host: "worker-3", pid: 812, label: "nightly import", since: 754)
    5.times do |number|
      locks.wait("nightly-import", host: "worker-#{number + 4}", pid: 1_200 + number,
                                   label: "supplier #{number}", since: 600 - (90 * number))
    end
    locks.hold("invoice:7", host: "web-1", pid: 4711, label: "PDF of invoice 7", since: 3)
    locks.wait("invoice:7", host: "web-2", pid: 377, label: "mail of invoice 7", since: 1.4)
    3.times do |number|
      locks.share("geocoder", "s", host: "worker-#{number}", pid: 90 + number, label: "geocode",
                                   since: 12 * (number + 1))
    end
    locks.wait("geocoder", share: "s3", host: "worker-9", pid: 99, label: "geocode", since: 8)
    2.times { |number| locks.share("prices", "r", host: "web-#{number}", pid: 5, since: 2) }
    locks.hold("digest", kind: Plock::Locking::Kind::ONCE, host: "cron-1", pid: 22,
                         label: "digest of the day", since: 4_000)
    12.times do |number|
      locks.hold("customer:#{number}", host: "web-#{number % 4}", pid: 4_700 + (number % 7),
                                       label: "order of customer #{number}", since: number)
    end
  end

  # Makes two processes wait for each other.
  def close_circle
    locks.hold("stock", host: "worker-1", pid: 31, label: "recount", since: 40)
    locks.hold("ledger", host: "worker-2", pid: 32, label: "close the books", since: 42)
    locks.wait("ledger", host: "worker-1", pid: 31, label: "recount", since: 30)
    locks.wait("stock", host: "worker-2", pid: 32, label: "close the books", since: 29)
  end

  # Fills the history as if a viewer had been looking at the pages for nine minutes.
  def look_back
    seen = Struct.new(:at, :held, :waiting)
    180.times do |number|
      app.sources.first.history.add(
        seen.new(Time.now - 540 + (3 * number), 14 + (6 * Math.sin(number / 9.0)).round,
                 [0, (number - 120) / 10].max + (number % 13 == 0 ? 2 : 0))
      )
    end
  end

  # Takes a screenshot of the page in each width and each color scheme, and checks it with
  # axe-core.
  def looks(name, browser = self.browser)
    %i[desktop phone].product(%i[light dark]).each do |width, scheme|
      browser.public_send(width)
      browser.public_send(scheme)
      browser.picture("#{name}-#{width}-#{scheme}")
      expect(browser).not_to be_too_wide
      expect(browser.unseen).to eq []
      expect(browser.complaints.join("\n")).to eq ""
    end
    browser.desktop
    browser.light
  end

  it "look and read well: overview" do
    fill
    close_circle
    look_back
    browser.visit("/")
    expect(browser).to have_text("Processes wait for one another")
    expect(browser).to have_css("svg polyline", count: 2)
    looks("overview")
  end

  it "look and read well: list, and search by the real key" do
    fill
    browser.visit("/locks")
    expect(browser).to have_css("table.locks tbody tr", count: 17)
    looks("list")
    browser.press("/") # puts the cursor into the search field
    browser.press("invoice:7", :enter)
    expect(browser).to have_css("table.locks tbody tr", count: 1)
    expect(browser).to have_css("td bdi", text: "invoice:7", exact_text: true)
    browser.find("td.main a").click
    expect(browser).to have_css("h1", text: "invoice:7")
  end

  it "look and read well: one key" do
    fill
    browser.visit("/locks?q=nightly-import")
    browser.find("td.main a", match: :first).click
    expect(browser).to have_css("table.people", count: 2)
    looks("lock")
    browser.visit("/locks?kind=semaphore")
    browser.find("td.main a").click
    expect(browser).to have_css("table.people:first-of-type tbody tr", minimum: 3)
    browser.picture("semaphore-desktop-light")
  end

  it "look and read well: doctor, nothing held, no store" do
    browser.visit("/doctor")
    expect(browser).to have_css(".findings li", minimum: 8)
    looks("doctor")
    browser.visit("/locks")
    expect(browser).to have_text("No key is held.")
    looks("empty")
    server.stop
    Support::Browser.app = Plock::Web.new(store, refresh: refresh) # has never reached the store
    browser.visit("/")
    expect(browser).to have_text("This store does not answer.")
    looks("no-store")
    expect(browser.title).to start_with "Overview"
  end

  it "look and read well: several stores" do
    fill
    away = open_store("redis://127.0.0.1:1", unavailable_timeout: 0.05)
    bank = open_store(server.unix_url, namespace: "bank")
    Support::WrittenLocks.new(server, bank).hold("ledger", host: "bank-1", label: "close the books")
    stores = { "shop" => store, "bank" => bank, "reports" => away }
    several = Plock::Web.new(stores, refresh: refresh, read_only: true)
    viewer = discard(Support::Browser.new(several), :close)
    viewer.visit("/")
    expect(viewer).to have_css(".store", count: 3)
    crossing = viewer.evaluate_script(<<~JS)
      [...document.querySelectorAll(".store")].filter((store) =>
        [...store.querySelectorAll("*")].some((inside) =>
          inside.getBoundingClientRect().right > store.getBoundingClientRect().right + 1)).length
    JS
    expect(crossing).to eq 0 # no column of a store reaches into the next store
    looks("stores", viewer)
    viewer.find("h2.name a", text: "bank").click
    expect(viewer).to have_css("td.main", text: "close the books")
    expect(viewer).to have_css("nav.stores a[aria-current]", text: "bank")
  end

  it "break a lock after a confirmation, with the keyboard alone" do
    lease = store.acquire("import", label: "nightly import", ttl: 60)
    browser.visit("/locks")
    browser.find("td.main a").send_keys(:enter)
    browser.find(:link, "Break this lock…").send_keys(:enter)
    expect(browser).to have_text("Break this lock?")
    expect(browser.find(".lead")).to have_text("nightly import").and have_text("pid #{Process.pid}")
    expect(store.status("import")).to be_held
    looks("break")
    browser.find(:button, "Break the lock").send_keys(:enter)
    expect(browser).to have_text("The lock was broken.")
    expect(browser).to have_text("No process holds this key.")
    expect(store.status("import")).not_to be_held
    expect { lease.extend(ttl: 60) }.to raise_error(Plock::LeaseLost)
    expect(log.string).to match(/alice broke plock:v1:shop:\h{64}.*label "nightly import"/)
  end

  it "show times in the viewer's zone" do
    locks.hold("a", label: "first")
    browser.session.driver.browser.page.command("Emulation.setTimezoneOverride",
                                                timezoneId: "Asia/Tokyo")
    browser.visit("/locks")
    expect(browser.find("footer")).to have_text("Times are in Asia/Tokyo.")
    time = browser.find("time", match: :first)
    expect(time.text).not_to include "UTC"
    at = Time.parse(time["datetime"])
    expect(time.text).to include format("%02d", (at.utc.hour + 9) % 24 % 12).delete_prefix("0")
  end

  it "show hostile text as text, and run none of it" do
    evil = %(</bdi><script>document.title="owned"</script><img src=x onerror="document.title=1">)
    locks.hold("a", host: "<b>host</b>", label: evil)
    browser.visit("/locks")
    expect(browser.find("td.main")).to have_text(evil)
    expect(browser).not_to have_css("td img, td script, td b")
    browser.find("td.main a").click
    expect(browser).to have_css("table.people", text: "<b>host</b>")
    expect(browser.title).to end_with " · plock"
  end

  describe "that are refreshed" do
    let(:refresh) { 1 }

    it "refresh themselves without losing the focus, until the viewer pauses them" do
      locks.hold("a", label: "first")
      browser.visit("/locks")
      browser.find("#q").click
      browser.press("half a wo")
      locks.hold("b", label: "second")
      expect(browser).to have_css("td.main", text: "second")
      expect(browser.evaluate_script("document.activeElement.value")).to eq "half a wo"
      browser.click_button("Pause")
      expect(browser).to have_button("Go on")
    end

    it "keep what they show if the application answers with another page" do
      locks.hold("a", label: "first")
      browser.visit("/locks")
      login = '<!doctype html><title>Sign in</title><main id="main">Sign in</main>'
      Support::Browser.app = ->(_env) { [200, { "content-type" => "text/html" }, [login]] }
      expect(browser).to have_css("#trouble", text: "cannot be reached")
      expect(browser).to have_css("td.main", text: "first")
    end

    it "say when they cannot be refreshed" do
      locks.hold("a", label: "first")
      browser.visit("/locks")
      browser.session.driver.browser.network.offline_mode
      expect(browser).to have_css("#trouble", text: "cannot be reached")
      expect(browser).to have_css("td.main", text: "first")
    end

    it "work without JavaScript" do
      locks.hold("a", label: "first")
      plain = discard(Support::Browser.new(app, javascript: false), :close)
      plain.visit("/locks")
      expect(plain).to have_css("td.main", text: "first")
      expect(plain).to have_text("UTC")
      locks.hold("b", label: "second")
      expect(plain).to have_css("td.main", text: "second") # the meta element reloads the page
    end
  end
end
