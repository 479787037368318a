# frozen_string_literal: true

# The places in the API at which names are described.
module ApiNames
  ANCHOR = /\A(?<name>.+)-(?<scope>class|instance)_method\z/
  # Methods that a module has by extending itself with another, as Plock.acquire
  EXTENDED = /<a href="([^"]+)" title="[^"]+ \(method\)">(\w+[?!]?)</

  module_function

  # @return [Hash{String => String}] paths on the site by names such as "Plock::Store#acquire"
  def of(items) = @of ||= items.find_all("/api/**/*.html").map { |item| names(item) }.reduce(:merge)

  def names(item)
    space = item.identifier.to_s[%r{\A/api/(.+)\.html\z}, 1].gsub("/", "::")
    { space => item[:path] }.merge(extended(space, item), own(space, item))
  end

  def own(space, item)
    anchors = item.raw_content.scan(/id="([^"]+)"/).flatten.grep(ANCHOR) { Regexp.last_match }
    anchors.to_h do |found|
      mark = found[:scope] == "class" ? "." : "#"
      ["#{space}#{mark}#{found[:name]}", "#{item[:path]}##{found}"]
    end
  end

  def extended(space, item)
    lists = item.raw_content.scan(%r{<p class="inherited">(.*?)</p>}m).flatten
    lists.join.scan(EXTENDED).to_h do |link, name|
      ["#{space}.#{name}", File.expand_path(link, File.dirname(item[:path]))]
    end
  end
end
