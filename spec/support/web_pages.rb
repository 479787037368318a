# frozen_string_literal: true

require "cgi"
require "plock/web"
require "rack/lint"
require "rack/test"
require "support/written_locks"

module Support
  # plock's web pages as a Rack application, which Rack::Lint checks.
  #
  #   get "/locks"
  #   expect(page).to include "nightly import"
  module WebPages
    include Rack::Test::Methods

    def app = @app ||= Rack::Lint.new(pages)

    # From now on, requests go to these other pages, as if from a new browser.
    def mount(pages)
      @app = Rack::Lint.new(pages)
      instance_variables.grep(/\A@_rack_test/).each { |name| remove_instance_variable(name) }
    end

    # The text of the last answer, as a browser shows it.
    def page
      text = last_response.body[%r{<main.*</main>}m].gsub(/<[^>]*>/, " ")
      CGI.unescapeHTML(text.gsub(/\s+/, " "))
    end

    # The labels in the last answer's list of locks.
    def rows
      cells = last_response.body.scan(%r{<td role="cell"\s+data-label="Label".*?</td>}m)
      cells.map { |cell| CGI.unescapeHTML(cell.gsub(/<[^>]*>/, "")) }
    end

    def code = last_response.status

    # Breaks a lease as a viewer does: opens the page that asks for confirmation, and confirms.
    def post_break(lease)
      path = "/locks/#{Rack::Utils.escape_path(lease.store_key)}/break"
      get path
      post path, token: hidden("token"), seen: hidden("seen")
    end

    def hidden(name) = last_response.body[/name="#{name}"\s+value="([^"]*)"/, 1]
  end
end
