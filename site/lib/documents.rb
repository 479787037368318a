# frozen_string_literal: true

require_relative "../../spec/support/documents"

# The contents of the site: the project's Markdown files, the files that they link to, and YARD's
# pages. Nothing is written for the site alone.
class Documents < Nanoc::DataSource
  identifier :documents

  ROOT = Support::Documents::ROOT
  API = File.join(ROOT, "tmp/yard-pages")
  SUPERFLUOUS = %w[_index.html top-level-namespace.html].freeze
  FIRST = %w[CHANGELOG.md CONTRIBUTING.md SECURITY.md].freeze

  # @param source [String] a file's path in the repository
  # @return [String] its path on the site
  def self.path_of(source)
    path = source.delete_prefix("docs/").sub(/(?:\A|(?<=\/))README\.md\z/, "index.html")
    "/#{path.sub(/\.md\z/, ".html")}"
  end

  # @param link [String] what a link on the page says
  # @return [Array(String, String)] the path in the repository, and the anchor or nil
  def self.target(page, link)
    file, anchor = link.split("#", 2)
    path = file.empty? ? page : File.expand_path(file, "/#{File.dirname(page)}").delete_prefix("/")
    [path, anchor]
  end

  def items = sources.map { |source| document(source) } + api

  private

  def document(source)
    return picture(source) if source.end_with?(".png")

    text = File.read(File.join(ROOT, source))
    attributes = { source: source, path: self.class.path_of(source), title: text[/^# (.+)$/, 1] }
    new_item(text, attributes, "/#{source}", checksum_data: text)
  end

  def picture(source)
    file = File.join(ROOT, source)
    attributes = { source: source, path: self.class.path_of(source) }
    new_item(file, attributes, "/#{source}", binary: true, checksum_data: File.binread(file))
  end

  # The pages of docs/, and all files that a page leads to.
  def sources
    found = Support::Documents.pages.map(&:path) + FIRST
    found.each do |source|
      next unless source.end_with?(".md")

      page = Support::Documents.page(source)
      targets = (page.links + page.images).map { |link| self.class.target(source, link) }
      targets.each { |path, _| found << path unless found.include?(path) }
    end
  end

  def api
    (Dir.glob("**/*.html", base: API).sort - SUPERFLUOUS).map do |name|
      text = File.read(File.join(API, name))
      title = text[%r{<h1[^>]*>(.*?)</h1>}m, 1].gsub(/<[^>]+>/, "").split.join(" ")
      new_item(text, { source: "api/#{name}", path: "/api/#{name}", title: title },
               "/api/#{name}", checksum_data: text)
    end
  end
end
