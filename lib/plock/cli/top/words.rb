# frozen_string_literal: true

require_relative "../../survey/words"

module Plock
  module CLI
    module Top
      # Short texts for narrow columns.
      class Words
        include Survey::Words

        UNITS = [["d", 86_400], ["h", 3600], ["m", 60], ["s", 1]].freeze
        # Matches characters that take two columns of a terminal.
        WIDE = /\p{Han}|\p{Hiragana}|\p{Katakana}|\p{Hangul}|\p{Emoji_Presentation}|
                [\u3000-\u303F\uFF01-\uFF60]/x
        private_constant :UNITS, :WIDE

        # @param columns [Integer] the width, in columns of the terminal
        # @return [String] the text, truncated or padded to that width
        def fit(text, columns)
          left = columns
          kept = text.each_grapheme_cluster.take_while { |part| (left -= width(part)) >= 0 }.join
          kept + (" " * (columns - width(kept)))
        end

        # @return [Integer] the number of columns that the text takes on a terminal
        def width(text)
          text.each_grapheme_cluster.sum { |character| character.match?(WIDE) ? 2 : 1 }
        end

        # @param time [Time, nil]
        # @return [String, nil] how long ago the time was
        def ago(time) = time && short_span(Time.now - time)

        # @param seconds [Numeric, nil]
        # @return [String, nil] with two units at most, such as 12m05s
        def short_span(seconds)
          return unless seconds
          return format("%.1fs", [seconds, 0].max) if seconds < 10

          left = seconds.round
          first = UNITS.index { |_, size| left >= size }
          name, size = UNITS[first]
          smaller = UNITS[first + 1]
          return "#{left}#{name}" unless smaller

          format("%d%s%02d%s", left / size, name, left % size / smaller[1], smaller[0])
        end

        # @return [String, nil] the first holder, and the number of other holders; nil if there is
        #   no holder
        def holder(status)
          return unless status.held?

          more = " +#{status.holders.size - 1}" if status.holders.size > 1
          "#{owner(status)}#{more}"
        end

        # @param known [Status, Status::Holder, Status::Waiter]
        def owner(known)
          return "unknown" unless known.host || known.pid

          [known.host && plain(known.host), known.pid].compact.join(":")
        end
      end
    end
  end
end
