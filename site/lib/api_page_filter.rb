# frozen_string_literal: true

require "nokogiri"

# A page that YARD made with the templates in site/yard.
class ApiPageFilter < Nanoc::Filter
  identifier :api_page

  def run(content, _ = {})
    html = Nokogiri::HTML5.fragment(content)
    html.css('a[href="#"], .fullTree, span[id=""]').remove # they need YARD's script
    html.css("h4, h5").each { |heading| heading.name = "p" } # titles of tags, not of sections
    html.css("small").each { |small| small.remove if small.text.strip.empty? }
    Markup.finish(html)
  end
end
