# frozen_string_literal: true

module Support
  # The pages that users read: README.md and docs/**/*.md. This module finds their examples,
  # headings and links.
  #
  # A fenced block is run if its info string says so:
  #
  #   ```ruby run
  #   lease.release # => true
  #   ```
  #
  # The text after "# =>" is compared with the value of the expression before it. "…" in that text
  # stands for anything.
  module Documents
    ROOT = File.expand_path("../..", __dir__)

    RECIPE = /^```ruby (?<framework>minitest|rspec)\n(?<program>.*?)^```$/m
    FENCED = /^```ruby run(?<needs>[ \w]*)\n(?<program>.*?)^```$/m
    CLAIM = /^(?<indent>\s*)(?<expression>\S.*?)\s+# => (?<expected>.+)$/

    FENCE = /^```.*?^```$/m
    HEADING = /^\#{1,6} +(.+?) *$/
    LINK = /(?<!!)\[[^\]]*\]\(([^)\s]+)\)/
    IMAGE = /!\[[^\]]+\]\(([^)\s]+)\)/

    # Runs in the process of the example, and compares the values there.
    PRELUDE = <<~'RUBY'
      def __claim(line, value, expected)
        parts = expected.split("…", -1).map { |part| Regexp.escape(part) }
        pattern = Regexp.new("\\A#{parts.join(".*")}\\z", Regexp::MULTILINE)
        abort "line #{line}: #{value.inspect}, not #{expected}" unless pattern.match?(value.inspect)
      end
    RUBY

    Example = Struct.new(:line, :needs, :program) do
      # A program that ends with an error if a value differs from the page.
      def runnable
        lines = program.lines(chomp: true).each_with_index.map do |text, number|
          text.gsub(CLAIM) do
            at = line + number + 1
            "#{$~[:indent]}__claim(#{at}, (#{$~[:expression]}), #{$~[:expected].dump})"
          end
        end
        [PRELUDE, *lines].join("\n")
      end

      def claims = program.lines.grep(CLAIM).size
    end

    # A page, which is a Markdown file.
    class Page
      # @return [String] the page's path in the project's folder
      attr_reader :path

      def initialize(path)
        @path = path
      end

      def text = @text ||= File.read(File.join(ROOT, path))

      def examples
        found = []
        text.scan(FENCED) do
          match = Regexp.last_match
          line = match.pre_match.count("\n") + 1
          found << Example.new(line, match[:needs].split, match[:program])
        end
        found
      end

      # @return [Array<Array(String, String)>] pairs of a framework and its program
      def recipes = text.scan(RECIPE)

      # @return [String, nil] the text between this second-level heading and the next one
      def section(title)
        text[/^## #{Regexp.escape(title)}\n(.*?)(?=^## |\z)/m, 1]
      end

      # @return [Array<String>] the headings that {#section} accepts
      def titles = prose.scan(/^## (.+)$/).flatten

      # @return [Array<String>] the anchors that GitHub generates from the headings
      def anchors
        seen = Hash.new(-1)
        prose.scan(HEADING).flatten.map do |heading|
          anchor = heading.downcase.gsub(/[^\p{Word}\- ]/, "").tr(" ", "-")
          (again = seen[anchor] += 1).positive? ? "#{anchor}-#{again}" : anchor
        end
      end

      # @return [Array<String>] the targets of links to files of the project
      def links
        prose.gsub(/`[^`\n]*`(?!\])/, "").scan(LINK).flatten.grep_v(%r{\A[a-z]+://|\Amailto:})
      end

      # @return [Array<String>] the files of the images that have an alternative text
      def images = prose.scan(IMAGE).flatten

      # @return [String, nil] why the link is broken, or nil if it works
      def broken(link)
        target, anchor = link.split("#", 2)
        file = target.empty? ? path : File.join(File.dirname(path), target)
        file = File.expand_path(file, ROOT)
        return "#{target} does not exist" unless File.exist?(file)
        return unless anchor

        page = Page.new(file.delete_prefix("#{ROOT}/"))
        "#{page.path} has no heading for ##{anchor}" unless page.anchors.include?(anchor)
      end

      private

      def prose = text.gsub(FENCE, "")
    end

    def self.pages
      found = ["README.md", *Dir.glob("docs/**/*.md", base: ROOT).sort]
      found.map { |path| Page.new(path) }
    end

    def self.page(path) = Page.new(path)

    # @param opening [String] the beginning of a sentence in docs/operations.md
    # @return [Array<String>] the permissions that the sentence names, as rules of ACL SETUSER
    def self.rights(opening)
      section = page("docs/operations.md").section("Requirements of the server").gsub(/\s+/, " ")
      sentence = section.split(/(?<=\.) (?:- )?/).find { |one| one.start_with?(opening) }
      (sentence or raise "no sentence begins with #{opening.inspect}")
        .scan(/`([^`]+)`/).flatten.flat_map(&:split).grep(/\A[+~&]/)
    end

    # @return [Array<String>] the words of the command that creates a user with the fewest
    #   permissions
    def self.acl
      command = pages.filter_map { |page| page.text[/^ACL SETUSER (?:.|\\\n)*?(?<!\\)$/] }
      command.first.gsub("\\\n", " ").split
    end
  end
end
