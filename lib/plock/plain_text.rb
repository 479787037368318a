# frozen_string_literal: true

module Plock
  # Text that others wrote, for people to read: it neither controls a terminal nor begins a line,
  # and neither hides nor reorders what stands beside it.
  #
  # @api private
  module PlainText
    # Control characters, line breaks and signs without a width, and changes of direction.
    MISLEADING = /[[:cntrl:]\u061C\u200B-\u200F\u2028-\u202E\u2060-\u2069\uFEFF]/.freeze

    # @param instead [String] what stands for each misleading character
    # @return [String]
    def self.of(value, instead: "\uFFFD")
      String.new(value.to_s, encoding: Encoding::UTF_8).scrub.gsub(MISLEADING, instead)
    end
  end
end
