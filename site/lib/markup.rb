# frozen_string_literal: true

# What documents and pages of the API have in common.
module Markup
  module_function

  # Wide blocks scroll by themselves, with the keyboard, too. An empty cell heads nothing. Styles
  # are classes: a strict Content-Security-Policy has no inline style.
  def finish(html)
    html.css("table").each { |table| table.wrap('<div class="scroll" tabindex="0"></div>') }
    html.css("th").each { |cell| cell.name = "td" unless cell.text.match?(/[[:graph:]]/) }
    html.css("pre").each { |pre| pre["tabindex"] = "0" }
    html.css("[style]").each do |node|
      side = node.delete("style").value[/text-align: *(\w+)/, 1]
      node.add_class(side) if side
    end
    html.to_html
  end
end
