# frozen_string_literal: true

require "nokogiri"
require "uri"

module Support
  # Checks that a folder of pages can be served from any path, under a strict
  # Content-Security-Policy. The HTML must be valid for a browser's parser. Links must lead to
  # files and anchors of the folder. The pages must load no other files.
  class SiteCheck
    FORBIDDEN = {
      "an inline style" => "style, [style]", "an inline script" => "script:not([src])",
      "a handler in an attribute" => "[onclick], [onload], [onerror]",
      "a frame" => "iframe, object, embed", "a picture without a text" => "img:not([alt])",
      "a drawing without a text" => "svg:not([aria-labelledby])",
      "Markdown that was not translated" => "p:contains('```')"
    }.freeze

    NEEDED = %w[link/href script/src img/src].freeze # the attributes that name a file to load

    # @param folder [String]
    def initialize(folder)
      @folder = File.expand_path(folder)
      files = Dir["#{@folder}/**/*.html"].sort
      @pages = files.to_h { |file| [file, Nokogiri::HTML5(File.read(file), max_errors: 10)] }
      @ids = @pages.transform_values { |page| page.css("[id]").map { |node| node["id"] } }
    end

    # @return [Array<String>] the errors, each with its page
    def complaints
      reached = ["#{@folder}/index.html"]
      found = @pages.flat_map do |file, page|
        wrong = forms(file, page) + needs(page) + page.css("a[href]").filter_map do |link|
          broken(file, link["href"], reached)
        end
        wrong.map { |complaint| "#{file.delete_prefix("#{@folder}/")}: #{complaint}" }
      end
      found + (@pages.keys - reached).map { |file| "no link leads to #{file}" }
    end

    private

    def forms(file, page)
      twice = @ids[file].tally.select { |_, count| count > 1 }.keys
      page.errors.map(&:to_s) + twice.map { |id| "#{id.inspect} identifies several elements" } +
        FORBIDDEN.select { |_, selector| page.at_css(selector) }.map { |name, _| "has #{name}" }
    end

    def needs(page)
      targets = NEEDED.flat_map do |pair|
        element, attribute = pair.split("/")
        page.css("#{element}[#{attribute}]").map { |node| node[attribute] }
      end
      targets.grep(%r{//|\A/}).map { |target| "needs #{target}, which is not in this folder" }
    end

    # @param reached [Array<String>] receives the page to which the link leads
    def broken(file, link, reached)
      return if link.match?(%r{\A(?:https?://|mailto:)})

      name, _, anchor = link.partition("#")
      target = name.empty? ? file : File.expand_path(name, File.dirname(file))
      return "#{link} is no file" unless File.file?(target) && !name.start_with?("/")

      reached << target unless target == file
      return if anchor.empty? || @ids.fetch(target, []).include?(decode(anchor))

      "#{link} has no such anchor"
    end

    def decode(anchor) = URI.decode_www_form_component(anchor.gsub("+", "%2B"))
  end
end
