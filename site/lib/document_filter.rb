# frozen_string_literal: true

require "kramdown"
require "kramdown-parser-gfm"
require "nokogiri"

# Markdown as GitHub shows it, with links to the pages of this site.
class DocumentFilter < Nanoc::Filter
  identifier :document

  OPTIONS = {
    input: "GFM", hard_wrap: false, gfm_quirks: "paragraph_end,no_auto_typographic",
    smart_quotes: "apos,apos,quot,quot", syntax_highlighter: "rouge"
  }.freeze

  # Code in sentences, not in headings and links
  SENTENCE_CODE =
    ".//code[not(ancestor::a or ancestor::pre or ancestor::h1 or ancestor::h2 or ancestor::h3)]"

  def run(content, _ = {})
    @html = Nokogiri::HTML5.fragment(Kramdown::Document.new(plain(content), **OPTIONS).to_html)
    @html.css("a[href]").each { |link| lead(link, "href") }
    @html.css("img[src]").each { |picture| lead(picture, "src") }
    remove_contents
    draw
    link_names
    Markup.finish(@html)
  end

  private

  # Without the words that tell the suite how to run an example: kramdown knows one word
  def plain(markdown) = markdown.gsub(/^( *```\w+) .+$/, '\1')

  def source = item[:source]

  def lead(node, attribute)
    return if node[attribute].match?(%r{\A[a-z]+://|\Amailto:})

    path, anchor = Documents.target(source, node[attribute])
    there = path == source ? "" : Documents.path_of(path)
    node[attribute] = [there, anchor].compact.join("#")
  end

  # The layout makes a list of the headings for each page.
  def remove_contents
    list = @html.at_css("h1 ~ ul")
    list.remove if list&.css("a")&.any? && list.css("li").all? { |entry| only_anchor?(entry) }
  end

  def only_anchor?(entry)
    links = entry.css("a")
    links.size == 1 && links.first["href"].start_with?("#") && links.text == entry.text.strip
  end

  def draw
    @html.css("pre > code.language-mermaid").each_with_index do |code, number|
      diagram = SequenceDiagram.new(code.text, "#{item[:path].tr("/.", "-")}-#{number}")
      code.parent.replace(diagram.figure)
    end
  end

  # Leads from the first mention of a class or a method to its page of the API.
  def link_names
    urls = ApiNames.of(@items)
    @html.xpath(SENTENCE_CODE).select { |code| urls.key?(code.text) }
         .uniq(&:text).each { |code| code.wrap(%(<a href="#{urls[code.text]}"></a>)) }
  end
end
