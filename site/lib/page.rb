# frozen_string_literal: true

require "cgi"
require_relative "../../lib/plock/version"

# Methods of the layout.
module Page
  def h(text) = CGI.escapeHTML(text.to_s)

  def api? = item[:source].start_with?("api/")

  def version = Plock::VERSION

  # @return [Array(String, String)] identifiers and texts of the headings that the margin lists
  def headings_of(html)
    page = Nokogiri::HTML5.fragment(html)
    methods = page.css("h3.signature[id]")
    return methods.map { |method| [method["id"], method.at_css("strong").text] } if methods.any?

    page.css("h2[id]").map { |heading| [heading["id"], heading.text.split.join(" ")] }
  end
end

use_helper Page
