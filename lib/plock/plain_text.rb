# frozen_string_literal: true

module Plock
  # Makes untrusted text safe to show, whatever its encoding.
  #
  # @api private
  module PlainText
    # Control characters, line breaks, zero-width characters, and marks that set text direction.
    MISLEADING = /[[:cntrl:]\u061C\u200B-\u200F\u2028-\u202E\u2060-\u2069\uFEFF]/.freeze

    # Returns text for people. The text can neither control a terminal nor begin a new line. It
    # can neither hide nor reorder the text beside it.
    #
    # @param instead [String] replaces each misleading character
    def self.of(value, instead: "\uFFFD") = utf8(value).gsub(MISLEADING, instead)

    # @return [String] a copy in valid UTF-8, in which only invalid bytes are replaced
    def self.utf8(value) = String.new(value.to_s, encoding: Encoding::UTF_8).scrub
  end
end
