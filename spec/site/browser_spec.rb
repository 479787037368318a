# frozen_string_literal: true

require "spec_helper"
require "rack/files"
require "rack/urlmap"
require "support/browser"

# The documentation site as a reader sees it. A server with a strict Content-Security-Policy serves
# it from a subfolder. The screenshots are in tmp/screenshots.
RSpec.describe "The documentation site in a browser", :browser do
  before(:context) do
    skip "chromium not installed" unless Support::Browser.path
    @browser = Support::Browser.new(served("/docs/plock"))
    listen
  end

  before do
    @complaints.clear
    browser.session.driver.browser.network.clear(:traffic)
  end

  after(:context) { @browser&.close }

  attr_reader :browser

  policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; " \
           "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

  define_method(:served) do |folder|
    Rack::URLMap.new(folder => Rack::Files.new(site, { "content-security-policy" => policy }))
  end

  def site = File.expand_path("../../tmp/site", __dir__)

  # Collects the browser's complaints: errors in scripts, and files that are refused or missing.
  def listen
    @complaints = []
    page = browser.session.driver.browser.page
    page.command("Log.enable")
    page.on("Log.entryAdded") { |event| @complaints << event["entry"].slice("text", "url") }
    page.on("Runtime.exceptionThrown") { |event| @complaints << event["exceptionDetails"]["text"] }
  end

  def visit(path) = browser.visit("/docs/plock/#{path}")

  def hosts
    urls = browser.session.driver.browser.network.traffic.map(&:url)
    urls.map { |url| URI(url).then { |uri| [uri.host, uri.port] } }.uniq
  end

  { "index.html" => "start", "leases-and-fences.html" => "guide",
    "api/Plock/Lease.html" => "api" }.each do |path, name|
    it "shows #{path} well in each width and theme" do
      visit(path)
      %i[desktop phone].product(%i[light dark]).each do |width, scheme|
        browser.public_send(width)
        browser.public_send(scheme)
        browser.picture("site-#{name}-#{width}-#{scheme}")
        expect(browser).not_to be_too_wide
        next if (width == :desktop) == (scheme == :dark) # tests each width and each scheme once

        expect(browser.complaints.join("\n")).to eq ""
      end
      expect(@complaints).to be_empty
      expect(hosts.size).to eq 1
    end
  end

  it "finds replicas, and leads there" do
    browser.desktop
    visit("api/Plock/Lease.html")
    browser.press("/") # puts the cursor into the search field
    browser.press("replicas")
    expect(browser).to have_css("#found a", minimum: 3)
    expect(browser.find("#found a", match: :first)).to have_text("Replicas that confirm")
    browser.picture("site-search")
    browser.press(:enter)
    expect(browser).to have_css("h1", text: "Stores")
    expect(browser.current_url).to end_with "/docs/plock/stores.html#replicas-that-confirm"
    expect(@complaints).to be_empty
  end

  it "works without a web server" do
    browser.desktop
    browser.visit("file://#{site}/drop-ins/index.html")
    browser.press("/")
    browser.press("replicas")
    browser.find("#found a", match: :first).click
    expect(browser).to have_css("h1", text: "Stores")
    expect(@complaints).to be_empty
  end

  it "opens its menu on a phone" do
    browser.phone
    visit("stores.html")
    expect(browser).to have_no_link("Architecture")
    browser.click_button("Menu")
    browser.picture("site-menu")
    browser.click_link("Architecture")
    expect(browser).to have_css("h1", text: "Architecture")
  end

  it "keeps the theme that the reader chose" do
    browser.desktop
    browser.light
    visit("index.html")
    paper = -> { browser.evaluate_script("getComputedStyle(document.body).backgroundColor") }
    light = paper.call
    2.times { browser.find("#theme").click }
    expect(browser.find("#theme")).to have_text("Theme: dark")
    visit("stores.html")
    expect(paper.call).not_to eq light
    browser.execute_script("localStorage.clear()")
  end

  it "copies code" do
    visit("getting-started.html")
    browser.find(".copy", match: :first, visible: :all).click
    expect(browser).to have_button("Copied")
  end
end
