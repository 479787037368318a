# frozen_string_literal: true

module Support
  # The README's examples: its fenced blocks whose info string says that they run.
  #
  #   ```ruby run
  #   lease.release # => true
  #   ```
  #
  # What stands behind "# =>" is compared with the value of what stands before it; "…" in it stands for anything.
  module ReadmeExamples
    MINITEST = /^```ruby minitest\n(?<program>.*?)^```$/m
    FENCED = /^```ruby run(?<needs>[ \w]*)\n(?<program>.*?)^```$/m
    CLAIM = /^(?<indent>\s*)(?<expression>\S.*?)\s+# => (?<expected>.+)$/

    # Compares, in the process that runs the example.
    PRELUDE = <<~'RUBY'
      def __claim(line, value, expected)
        pattern = Regexp.new("\\A#{expected.split("…", -1).map { |part| Regexp.escape(part) }.join(".*")}\\z", Regexp::MULTILINE)
        abort "line #{line}: #{value.inspect}, not #{expected}" unless pattern.match?(value.inspect)
      end
    RUBY

    Example = Struct.new(:line, :needs, :program) do
      # A program that ends with an error where the README is wrong.
      def runnable
        lines = program.lines(chomp: true).each_with_index.map do |text, number|
          text.gsub(CLAIM) { "#{$~[:indent]}__claim(#{line + number + 1}, (#{$~[:expression]}), #{$~[:expected].dump})" }
        end
        [PRELUDE, *lines].join("\n")
      end

      def claims = program.lines.grep(CLAIM).size
    end

    def self.of(file)
      text = File.read(file)
      found = []
      text.scan(FENCED) do
        match = Regexp.last_match
        found << Example.new(match.pre_match.count("\n") + 1, match[:needs].split, match[:program])
      end
      found
    end
  end
end
