# frozen_string_literal: true

require "rouge"

# Colours code as the other pages do.
module Highlight
  def html_syntax_highlight(source, type = nil)
    lexer = Rouge::Lexer.find((type || :ruby).to_s) || Rouge::Lexers::PlainText
    Rouge::Formatters::HTML.new.format(lexer.lex(source))
  end
end

YARD::Templates::Template.extra_includes << Highlight
