# frozen_string_literal: true

require "capybara"
require "capybara/cuprite"
require "capybara/rspec/matchers"
require "axe/api/run"
require "axe/configuration"
require "fileutils"

module Support
  # A window of a headless Chromium, and a server of the application on a free loopback port.
  #
  #   browser = discard(Support::Browser.new(app), :close)
  #   browser.visit("/locks")
  #   browser.phone; browser.dark; browser.picture("list-phone-dark")
  class Browser
    PROGRAMS = %w[chromium chromium-browser google-chrome].freeze
    PICTURES = File.expand_path("../../tmp/screenshots", __dir__)
    DESKTOP = [1280, 1000].freeze
    PHONE = [390, 1200].freeze
    WAIT_S = 10
    RULES = %w[wcag2a wcag2aa wcag21a wcag21aa wcag22aa best-practice].freeze

    def self.path
      ENV["PATH"].split(File::PATH_SEPARATOR).product(PROGRAMS)
        .map { |folder, name| File.join(folder, name) }.find { |file| File.executable?(file) }
    end

    class << self
      # The application that the server runs.
      attr_accessor :app

      # All examples share one session, because Chromium takes seconds to start and to shut down.
      def session = @session ||= start

      private

      def start
        Capybara.server = :puma, { Silent: true, Threads: "0:4" }
        Capybara.default_max_wait_time = WAIT_S
        Capybara.register_driver(:plock) do |capybara|
          Capybara::Cuprite::Driver.new(
            capybara, browser_path: path, window_size: DESKTOP, timeout: 30, process_timeout: 60,
            js_errors: true,
            browser_options: { "no-sandbox" => nil, "disable-dev-shm-usage" => nil }
          )
        end
        Capybara::Session.new(:plock, ->(env) { app.call(env) }).tap do |session|
          RSpec.configuration.after(:suite) { session.driver.quit }
        end
      end
    end

    attr_reader :session

    def initialize(app, javascript: true)
      Browser.app = app
      @session = Browser.session
      @width = DESKTOP.first
      return if javascript

      page.command("Emulation.setScriptExecutionDisabled", value: true)
    end

    # Resets the window after an example.
    def close = session.reset!

    def phone = size(PHONE, mobile: true)

    def desktop = size(DESKTOP, mobile: false)

    def dark = scheme("dark")

    def light = scheme("light")

    # Saves a screenshot of the window.
    def picture(name)
      FileUtils.mkdir_p(PICTURES)
      session.driver.save_screenshot("#{PICTURES}/#{name}.png")
    end

    # @return [Array<String>] the violations that axe-core finds on the page, one line for each
    #   element
    def complaints
      session.execute_script(File.read(Axe::Configuration.instance.jslib_path)) \
        unless session.evaluate_script("typeof window.axe === 'object'")
      # returns only these parts, because the whole result has thousands of nodes, which Cuprite
      # would fetch one by one
      session.evaluate_async_script(<<~JS, RULES)
        const [rules, done] = arguments;
        axe.run(document, { runOnly: rules, resultTypes: ["violations"] }).then((found) =>
          done(found.violations.flatMap((violation) => violation.nodes.map((node) =>
            `${violation.id}: ${node.html} ${node.failureSummary}`))));
      JS
    end

    # Is the page wider than the window? The window's innerWidth cannot tell, because on a phone it
    # grows with the page.
    def too_wide?
      session.evaluate_script("document.documentElement.scrollWidth") > @width
    end

    # The elements that can have the focus, but are invisible when they have it.
    def unseen
      session.evaluate_script(<<~JS)
        [...document.querySelectorAll("main a, main button, main input, main select")]
          .filter((each) => each.type !== "hidden" && (() => {
            for (let node = each; node; node = node.parentElement)
              if (getComputedStyle(node).clipPath !== "none") return true;
            return false;
          })()).map((each) => each.outerHTML)
      JS
    end

    def press(*keys) = session.driver.browser.keyboard.type(*keys)

    def method_missing(name, ...)
      session.respond_to?(name) ? session.public_send(name, ...) : super
    end

    def respond_to_missing?(name, all = false) = session.respond_to?(name, all) || super

    private

    def page = session.driver.browser.page

    def size((width, height), mobile:)
      @width = width
      page.command("Emulation.setDeviceMetricsOverride",
                   width: width, height: height, deviceScaleFactor: 1, mobile: mobile)
    end

    def scheme(name)
      page.command("Emulation.setEmulatedMedia",
                   features: [{ name: "prefers-color-scheme", value: name }])
    end
  end
end
