# frozen_string_literal: true

require "json"
require "nokogiri"

# All sections of all pages, for the search in site.js.
class SearchIndexFilter < Nanoc::Filter
  identifier :search_index

  HEADINGS = %w[h1 h2 h3].freeze
  REPEATED = "svg, details.source, ul.summary, .inherited, .box_info"

  def run(_content, _ = {})
    pages = @items.select { |item| item[:path].to_s.end_with?(".html") }
    order = Navigation.all(@items).map(&:source)
    sections = pages.sort_by { |page| [order.index(page[:source]) || order.size, page[:source]] }
                    .flat_map { |page| sections_of(page) }
    "searchIndex(#{JSON.generate(sections)});\n"
  end

  private

  # @return [Array<Array<String>>] path, title of the page, heading, text
  def sections_of(page)
    html = Nokogiri::HTML5.fragment(page.compiled_content(snapshot: :pre))
    html.css(REPEATED).remove
    title = page[:title].sub(/\A(?:Class|Module|Exception): /, "")
    found = []
    gather(html, page[:path].delete_prefix("/"), title, found)
    found.map { |path, heading, text| [path, title, heading, text.split.join(" ")] }
  end

  def gather(node, path, title, found)
    node.children.each do |child|
      if child.name == "h1" || (HEADINGS.include?(child.name) && child["id"])
        anchor = "##{child["id"]}" unless child.name == "h1"
        found << ["#{path}#{anchor}", heading_of(child, title), +""]
        found.last[2] << child.text << " " if child["class"] # a signature
      elsif child.text?
        found.last[2] << child.text << " " if found.any?
      else
        gather(child, path, title, found)
      end
    end
  end

  def heading_of(node, title)
    return title if node.name == "h1"
    return node.text.split.join(" ") unless node["class"]

    "#{title}#{node["id"].end_with?("-class_method") ? "." : "#"}#{node.at_css("strong").text}"
  end
end
