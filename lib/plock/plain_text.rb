# frozen_string_literal: true

module Plock
  # Text that others wrote, in whatever encoding.
  #
  # @api private
  module PlainText
    # Control characters, line breaks and signs without a width, and changes of direction.
    MISLEADING = /[[:cntrl:]\u061C\u200B-\u200F\u2028-\u202E\u2060-\u2069\uFEFF]/.freeze

    # For people to read: the text neither controls a terminal nor begins a line, and neither hides
    # nor reorders what stands beside it.
    #
    # @param instead [String] what stands for each misleading character
    # @return [String]
    def self.of(value, instead: "\uFFFD") = utf8(value).gsub(MISLEADING, instead)

    # @return [String] a copy in valid UTF-8, with the same bytes where they are valid
    def self.utf8(value) = String.new(value.to_s, encoding: Encoding::UTF_8).scrub
  end
end
