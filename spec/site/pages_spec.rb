# frozen_string_literal: true

require "spec_helper"
require "support/site_check"
require "tmpdir"

# Tests the pages that `rake site` has generated.
RSpec.describe "The documentation site" do
  root = File.expand_path("../..", __dir__)
  site = "#{root}/tmp/site"

  it "has valid pages, whose links lead somewhere and which need no other host" do
    expect(Support::SiteCheck.new(site).complaints.join("\n")).to eq ""
  end

  it "has a page for each document and each public class" do
    documents = Dir["#{root}/docs/**/*.md"].map { |file| file.delete_prefix("#{root}/docs/") }
    pages = documents.map { |file| file.sub(/README\.md\z/, "index.md").sub(/md\z/, "html") }
    pages += %w[index.html CHANGELOG.html api/index.html api/Plock/Store.html api/Parse/Lock.html]
    expect(pages.reject { |page| File.file?("#{site}/#{page}") }).to be_empty
  end

  it "leads from the documents to the API" do
    text = File.read("#{site}/getting-started.html")
    expect(text).to include('<a href="api/Plock/TimeoutError.html">')
  end

  it "draws the pictures, and names what they show" do
    titles = %w[architecture leases-and-fences stores].flat_map do |page|
      Nokogiri::HTML5(File.read("#{site}/#{page}.html")).css("svg[role=img] > title").map(&:text)
    end
    expect(titles)
      .to eq ["The waiting protocol", "The life of a lease", "A failover with sentinels"]
  end

  it "can be searched for every heading of the documents" do
    index = File.read("#{site}/search-index.js")
    places = JSON.parse(index[/\AsearchIndex\((.*)\);\n\z/m, 1])
    expect(places).to include(start_with("stores.html#replicas-that-confirm", "Stores"))
    expect(places.map(&:first)).to include("api/Plock/Lease.html#release-instance_method")
  end

  describe "when it is checked" do
    def complaints(pages)
      Dir.mktmpdir("plock-site") do |folder|
        pages.each { |name, body| File.write("#{folder}/#{name}.html", page(body)) }
        Support::SiteCheck.new(folder).complaints
      end
    end

    def page(body) = "<!DOCTYPE html><html lang=en><title>t</title><body>#{body}</body></html>"

    it "passes with links among its pages" do
      expect(complaints("index" => "<a href='a.html#x'>a</a><a href='https://host'>b</a>",
                        "a" => "<p id=x>x</p><a href='#x'>y</a>")).to be_empty
    end

    {
      "a link to no page" => ["<a href='b.html'>b</a>", /b\.html is no file/],
      "a link to no anchor" => ["<a href='#b'>b</a>", /#b has no such anchor/],
      "a link from the root of the server" => ["<a href='/index.html'>b</a>", /is no file/],
      "invalid HTML" => ["<b>x</p></i>", /Tag|tag/],
      "one identifier twice" => ["<p id=a>1<p id=a>2", /"a" identifies several/],
      "a script of another host" => ["<script src='https://host/a.js'></script>", /needs https/],
      "an inline script" => ["<script>1</script>", /inline script/],
      "an inline style" => ["<p style='color: red'>a", /inline style/],
      "a picture without a text" => ["<img src='a.png'>", /picture without/]
    }.each do |name, (body, complaint)|
      it("notices #{name}") { expect(complaints("index" => body)).to include(complaint) }
    end

    it "notices a page that no link leads to" do
      expect(complaints("index" => "a", "b" => "b")).to include(/no link leads to .*b\.html/)
    end
  end
end
