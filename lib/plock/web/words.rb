# frozen_string_literal: true

require_relative "../survey/words"

module Plock
  class Web
    # Texts about locks for the web pages. A method returns HTML only if its comment says so.
    #
    # @api private
    module Words
      include Survey::Words

      # The names of the doctor's levels, the worst one first.
      LEVELS = { danger: "Danger", advice: "Advice", unknown: "Unknown", fine: "OK" }.freeze

      # @return [String] HTML: the key's name, or the beginning of its digest
      def key_html(status)
        tag = status.key ? "bdi" : "code"
        "<#{tag}>#{::Erubi.h(title_of(status))}</#{tag}>"
      end

      # @return [String] HTML: the first holder's label, or the key
      def label_html(status)
        status.label ? own_label_html(status) : key_html(status)
      end

      # @param known [Status, Status::Holder, Status::Waiter]
      # @return [String] HTML: the label of the holder or waiter
      def own_label_html(known)
        return %(<span class="none">no label</span>) unless known.label

        "<bdi>#{::Erubi.h(plain(known.label))}</bdi>"
      end

      # @param time [Time, nil]
      # @return [String] how long ago the time was
      def ago(time) = span(time && [@now - time, 0].max)

      # @param time [Time, nil]
      # @return [String] HTML: the time in UTC, which the page's script changes to the viewer's zone
      def moment(time)
        return "–" unless time

        utc = time.getutc
        %(<time datetime="#{utc.strftime("%FT%T.%3NZ")}">#{utc.strftime("%F %T")} UTC</time>)
      end

      def check_name(finding)
        finding.check == "tls" ? finding.check.upcase : finding.check.capitalize
      end
    end
  end
end
