# frozen_string_literal: true

require "cgi"

# A Mermaid sequence diagram as SVG. GitHub draws the same text itself; this draws it without a
# browser, in the colours of the page (site.css). It knows participants, messages, notes, `loop`,
# `alt`, `else` and `opt`, and refuses everything else. Each diagram needs an alternative text:
# accTitle and accDescr.
class SequenceDiagram
  CHARACTER = 7.3 # px, at most, on average
  LINE = 18
  PADDING = 12
  BOX = 40 # px, the height of a participant
  ROW = 50
  MARGIN = 8
  NOTE_OVERHANG = 60 # px, of a note beyond the lines of its participants, on both sides together

  Message = Struct.new(:from, :to, :arrow, :text)
  Note = Struct.new(:from, :to, :text)
  Frame = Struct.new(:kind, :text)

  # @param id [String] what the identifiers begin with; one diagram has it
  def initialize(source, id)
    @id = id
    @names = {}
    @steps = []
    first, *lines = source.gsub(/accDescr *\{(.*?)\}/m) { describe($1) }.lines.map(&:strip)
    raise "not a sequence diagram: #{first}" unless first == "sequenceDiagram"

    lines.reject(&:empty?).each { |line| read(line) }
    raise "a diagram needs accTitle and accDescr" unless @title && @description
  end

  # @return [String]
  def figure
    place
    body = draw
    <<~HTML
      <figure class="diagram" tabindex="0"><svg viewBox="0 0 #{@width} #{@height}"
        width="#{@width}" height="#{@height}" role="img"
        aria-labelledby="#{@id}-title #{@id}-text"><title id="#{@id}-title">#{h(@title)}</title>
        <desc id="#{@id}-text">#{h(@description)}</desc>
        #{body}</svg></figure>
    HTML
  end

  private

  def describe(text)
    @description = text.split.join(" ")
    ""
  end

  def read(line)
    case line
    when /\AaccTitle: *(.+)/ then @title = $1
    when /\Aparticipant (\w+) as (.+)/ then @names[$1] = $2
    when /\A(\w+)(-?->>|--?x)(\w+): *(.+)/ then @steps << Message.new(at($1), at($3), $2, $4)
    when /\ANote over (\w+)(?:, *(\w+))?: *(.+)/ then @steps << Note.new(at($1), at($2 || $1), $3)
    when /\A(loop|alt|opt|else|end)\b *(.*)/ then @steps << Frame.new($1, $2)
    else raise "unknown in a sequence diagram: #{line}"
    end
  end

  def at(name) = @names.keys.index(name) || raise("no participant #{name}")

  # Places the participants: as near to one another as their texts allow.
  def place
    gaps = @names.values.each_cons(2).map { |pair| pair.sum { |name| size(name) } / 2 + 24 }
    @steps.grep(Message).sort_by { |step| span(step).size }.each do |step|
      widen(gaps, span(step), size(step.text) + 20)
    end
    @steps.grep(Note).reject { |note| note.from == note.to }.each do |note|
      widen(gaps, span(note), size(note.text) - NOTE_OVERHANG)
    end
    @x = gaps.reduce([0]) { |all, gap| all << (all.last + gap) }
    left, right = boxes.flat_map { |center, width| [center - (width / 2), center + (width / 2)] }
                       .minmax
    @x.map! { |x| x - left + (2 * MARGIN) }
    @width = (right - left + (4 * MARGIN)).ceil
  end

  # @return [Array<Array<Float>>] the centers and widths of participants and notes
  def boxes
    names = @names.values.each_with_index.map { |name, column| [@x[column], size(name)] }
    names + @steps.grep(Note).map { |note| extent(note) }
  end

  def extent(note)
    from, to = [note.from, note.to].map { |column| @x[column] }
    [(from + to) / 2.0, [(to - from).abs + NOTE_OVERHANG, size(note.text)].max]
  end

  def span(step) = Range.new(*[step.from, step.to].minmax, true).to_a

  def widen(gaps, columns, needed)
    lack = needed - columns.sum { |column| gaps[column] }
    columns.each { |column| gaps[column] += lack / columns.size } if lack.positive?
  end

  def size(text) = (text.split(%r{<br/?>}).map(&:size).max * CHARACTER) + (2 * PADDING)

  def draw
    @y = MARGIN + BOX + 10
    @frames = []
    steps = @steps.map { |step| send(:"draw_#{step.class.name.split("::").last.downcase}", step) }
    @height = (@y + 16 + BOX + MARGIN).ceil
    lifelines + steps.join + [MARGIN, @height - BOX - MARGIN].map { |y| participants(y) }.join
  end

  def lifelines
    @x.map do |x|
      %(<path class="life" d="M#{x} #{MARGIN + BOX}V#{@height - BOX - MARGIN}"/>)
    end.join
  end

  def participants(y)
    @names.values.each_with_index.map do |name, column|
      box("actor", @x[column], y, size(name), BOX, [name])
    end.join
  end

  def draw_message(step)
    @y += ROW - 6
    from, to = @x[step.from], @x[step.to]
    way = to <=> from
    tip = step.arrow.end_with?("x") ? cross(to - (10 * way)) : head(to, way)
    kind = step.arrow.start_with?("--") ? "message answer" : "message"
    label((from + to) / 2, @y - 9, step.text) +
      %(<path class="#{kind}" d="M#{from} #{@y}H#{to - (way * 9)}"/>#{tip})
  end

  def head(x, way) = %(<path class="head" d="M#{x} #{@y}l#{-10 * way} -5v10z"/>)

  def cross(x) = %(<path class="cross" d="M#{x - 5} #{@y - 5}l10 10m0 -10l-10 10"/>)

  def draw_note(step)
    lines = step.text.split(%r{<br/?>})
    height = (lines.size * LINE) + 14
    center, width = extent(step)
    @y += 16
    drawn = box("note", center, @y, width, height, lines)
    @y += height
    drawn
  end

  def draw_frame(step)
    case step.kind
    when "end" then close_frame(@frames.pop)
    when "else" then divide(step.text)
    else open_frame(step)
    end
  end

  def open_frame(step)
    @y += 14
    @frames << @y
    inset = inset_of(@frames.size)
    @y += 22
    words = step.text.empty? ? step.kind : "#{step.kind}: #{step.text}"
    label(inset + 8, @y - 6, words, "frame-name")
  end

  def divide(text)
    @y += 14
    inset = inset_of(@frames.size)
    line = %(<path class="frame divider" d="M#{inset} #{@y}H#{@width - inset}"/>)
    @y += 22
    line + label(inset + 8, @y - 6, "else: #{text}", "frame-name")
  end

  def close_frame(top)
    @y += 12
    inset = inset_of(@frames.size + 1)
    %(<rect class="frame" x="#{inset}" y="#{top}" width="#{@width - (2 * inset)}"
      height="#{@y - top}" rx="4"/>)
  end

  def inset_of(depth) = 2 + (6 * (depth - 1))

  def box(kind, x, y, width, height, lines)
    top = y + (height / 2) - ((lines.size - 1) * LINE / 2) + 5
    texts = lines.each_with_index.map { |text, number| label(x, top + (number * LINE), text, kind) }
    %(<rect class="#{kind}" x="#{x - (width / 2)}" y="#{y}" width="#{width}" height="#{height}"
      rx="4"/>#{texts.join})
  end

  def label(x, y, text, kind = "label") =
    %(<text class="#{kind}" x="#{x}" y="#{y}">#{h(text)}</text>)

  def h(text) = CGI.escapeHTML(text)
end
