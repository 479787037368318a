# frozen_string_literal: true

require "ripper"

module Support
  # All sentences that plock can output (errors, warnings, the command's output), read from the
  # source files. "…" stands for a value that plock fills in.
  module Messages
    ROOT = File.expand_path("../..", __dir__)
    FILE = "#{ROOT}/spec/messages.txt"

    # Literals that are not sentences: statements to a database, templates of files, words of
    # other programs.
    NO_SENTENCE = /\A\s*
      (?:SELECT|INSERT|UPDATE|DELETE|CREATE|ALTER|DROP|WITH|SET|BEGIN|DO|CALL|LISTEN
        |\#!|<|\.\w+\ \{)
      \b?/x
    WORDS = 3

    # The tokens that begin a literal in Ruby, and those that end it.
    OPENING = %i[on_tstring_beg on_heredoc_beg on_backtick on_words_beg on_qwords_beg on_symbols_beg
                 on_qsymbols_beg].freeze
    CLOSING = %i[on_tstring_end on_heredoc_end on_label_end].freeze

    # A value in a C literal, which is a printf conversion. MACRO matches a conversion whose letter
    # is in a macro.
    CONVERSION = /%[-+#.*\d]*(?:[hl]{1,2}|[jzt])?[dioucsxXeEfFgGp]/
    MACRO = /%"\s*PRI\w+\s*("?)/

    module_function

    # @return [String] the expected contents of FILE
    def all
      sources.filter_map do |file|
        found = sentences(file)
        [file, *found.map { |sentence| "  #{sentence}" }].join("\n") unless found.empty?
      end.join("\n\n") << "\n"
    end

    def sources
      Dir.chdir(ROOT) do
        Dir["{lib,exe,ext/plock}/**/*.{rb,c,h,lua}"].grep_v(%r{/build/|templates/}).sort
      end
    end

    def sentences(file)
      text = File.read("#{ROOT}/#{file}")
      literals = file.end_with?(".rb") ? of_ruby(text) : of_c(text)
      literals
        .map { |literal| literal.gsub(/\s+/, " ").strip }
        .uniq
        .select { |literal| sentence?(literal) }
    end

    def sentence?(text)
      text.scan(/[[:alpha:]]{2,}/).size >= WORDS && text.match?(/[a-z] [a-z]/) &&
        !text.match?(NO_SENTENCE)
    end

    # Joins adjacent literals, even if a backslash continues them on the next line.
    def of_ruby(text)
      found = []
      depth = 0    # how many literals are open; a literal may contain another one inside #{}
      current = +""
      joined = false
      Ripper.lex(text).each do |_, type, token|
        case type
        when *OPENING
          depth += 1
          current = joined ? found.pop : +"" if depth == 1
        when :on_tstring_content then current << token if depth == 1
        when :on_embexpr_beg
          current << "…" if depth == 1
          depth += 1 if depth.positive?
        when :on_embexpr_end then depth -= 1 if depth.positive?
        when *CLOSING
          depth -= 1
          found << current if depth.zero?
        end
        joined =
          depth.zero? &&
          (
            type == :on_tstring_end ||
              (joined && type == :on_sp && token.match?(/\A[ \t]*\\?\n?[ \t]*\z/))
          )
      end
      found
    end

    # Leaves out comments, and joins adjacent literals.
    def of_c(text)
      bare = text.gsub(%r{/\*.*?\*/}m, "").gsub(/^\s*#\s*include.*$/, "")
      bare.scan(/((?:"(?:[^"\\\n]|\\.)*"(?:\s|\\\n|PRI\w+)*)+)/).flatten.map do |literals|
        literals
          .gsub(MACRO) { $1.empty? ? '…"' : "…" }
          .gsub(CONVERSION, "…")
          .scan(/"((?:[^"\\\n]|\\.)*)"/)
          .join
          .gsub(/\\n/, " ")
          .gsub(/\\(.)/, '\1')
      end
    end
  end
end
