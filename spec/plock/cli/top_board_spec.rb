# frozen_string_literal: true

require "spec_helper"
require "plock/survey"
require "plock/survey/listing"
require "plock/cli/top/board"

RSpec.describe "The board of plock top" do
  let(:board) { Plock::CLI::Top::Board.new("redis://h:1  shop") }

  def status(key, waiters: 0, since: 5, **holder)
    facts = { host: "h", pid: 1, thread: 1, since: Time.now.to_f - since, remaining: 9.0 }
    Plock::Status.new(
      nil, Plock.store_key("plock:v1:", key, nil),
      [[Plock::Status.holder(**facts.merge(holder))],
       Array.new(waiters) { |number| Plock::Status.waiter(host: "w", pid: number + 1) }]
    )
  end

  def see(*statuses, **options)
    board.update(Plock::Survey::Snapshot.new(statuses, at: Time.now, **options), [])
  end

  def text(width = 80, height = 24) = board.lines(width, height).map(&:first)

  def marked = board.lines(80, 24).find { |_, style| style == :selected }&.first

  it "fills the screen to the line, and no line is wider" do
    see(*Array.new(50) { |n| status("k#{n}", label: "x" * 90, host: "h" * 90, since: 9 * 86_400) })
    [[80, 24], [132, 50], [80, 5], [200, 10]].each do |width, height|
      lines = text(width, height)
      expect(lines.size).to eq height
      expect(lines.map(&:size).max).to be <= width
    end
  end

  it "keeps the mark on its lock, wherever that moves" do
    see(status("a", label: "first"), status("b", label: "second", since: 1))
    board.press("j")
    expect(marked).to include "second"
    see(status("a", label: "first"), status("b", label: "second", since: 1, waiters: 3))
    expect(text[3]).to include "second"
    expect(marked).to include "second"
    see(status("a", label: "first"))
    expect(marked).to include "first"
  end

  it "asks about the lock that was marked, and keeps to that" do
    see(status("a", label: "first"))
    board.press("b")
    see(status("c", label: "third", waiters: 9))
    expect(text.join("\n")).to match(/Break this lock\?.*held by h:1 "first"/m)
    order, subject = board.press("y")
    expect([order, subject.label]).to eq [:break, "first"]
  end

  it "names the node of one lock of a cluster" do
    one = status("a")
    see(Plock::Status.new(nil, one.store_key, [one.holders, []], %w[10.0.0.7 6379]))
    board.press(:enter)
    expect(text).to include "at node 10.0.0.7:6379"
    board.press(:escape)
    see(one)
    board.press(:enter)
    expect(text.grep(/at node/)).to be_empty
  end

  it "shows the list while a filter is typed, and looks at what is left of it" do
    see(status("a", label: "first"), status("b", label: "second", since: 1))
    board.press("/")
    expect(text).to include(/first/).and include(/second/)
    board.press("n")
    expect(text.grep(/first|second/)).to contain_exactly(/second/)
    expect(board.shown.map(&:label)).to eq ["second"]
    board.press(:escape)
    board.press(:enter)
    board.press(:escape)
    board.press("/")
    expect(text).to include(/first/).and include(/second/)
  end

  it "asks no question that the window cannot show" do
    see(status("a", label: "first"))
    [[20, 5], [1, 1], [39, 24], [80, 10]].each do |width, height|
      text(width, height)
      board.press("b")
      expect(board.press("y")).to eq :look
    end
    text(40, 11)
    board.press("b")
    expect(text(40, 11).join("\n")).to match(/Break this lock\?.*held by h:1 "first".*y breaks/m)
    expect(text(1, 1)).not_to include(/y breaks/) # the terminal is now too small for the question
    expect(board.press("y")).to eq :look
    text
    board.press("b")
    text
    expect(board.press("y").first).to eq :break
  end

  it "asks about many holders, and says how many it cannot show" do
    one = status("a")
    many = Array.new(50) { |n| Plock::Status.holder(host: "h", pid: n) }
    see(Plock::Status.new(nil, one.store_key, [many, []]))
    text(80, 24)
    board.press("b")
    lines = text(80, 24)
    expect(lines.grep(/held by h:/).size).to eq 14
    expect(lines.join("\n")).to match(/and by 36 more\n.*y breaks the lock/m)
  end

  it "breaks nothing that is not held, nor without a mark" do
    board.press("b")
    expect(board.press("y")).to eq :look
    free = status("a", waiters: 1)
    see(Plock::Status.new(nil, free.store_key, [[], free.waiters]))
    board.press("b")
    expect(text[1]).to eq "No process holds it any more."
    expect(board.press("y")).to eq :look
  end

  it "moves by pages and to both ends" do
    see(*Array.new(100) { |n| status("k#{n}", label: format("%02d", n), since: 1_000 - n) })
    text
    { page_down: "20", last: "99", page_up: "79", first: "00", up: "00", down: "01" }
      .each do |key, label|
        board.press(key)
        expect(marked).to include(" #{label} "), "#{key}: #{marked}"
      end
  end

  it "tells how far it has come, what it cannot read and who waits for whom" do
    see(rest: 9_000, complete: false)
    expect(text[1]).to eq "Still counting: 9,000 keys to look at"
    see(unreadable: [Plock::UnavailableError.new("WRONGTYPE")])
    expect(text[1]).to eq "1 key could not be read: WRONGTYPE"
    see(cut: true)
    expect(text[1]).to start_with "There are more keys than this view lists"
    board.fail(Plock::UnavailableError.new("refused\e[2J"))
    expect(text[1]).to eq "The store does not answer: refused\uFFFD[2J"
    known = status("a", waiters: 1)
    himself = Plock::Status.waiter(host: "h", pid: 1, thread: 1)
    see(Plock::Status.new(nil, known.store_key, [known.holders, [himself]]))
    expect(text[1]).to start_with "Processes wait for one another: h:1 waits for"
  end

  it "keeps its columns for wide characters, and none of them is cut in two" do
    words = Plock::CLI::Top::Words.new
    expect([words.fit("abc", 2), words.fit("abc", 5), words.fit("", 1)]).to eq ["ab", "abc  ", " "]
    expect(words.fit("仕事の名前", 5)).to eq "仕事 "
    expect(words.fit("e\u0301a", 3)).to eq "e\u0301a "
    see(status("a", label: "仕事の名前" * 9), status("b", label: "x" * 90))
    wide, plain = text.values_at(3, 4)
    expect(words.width(wide[/.*(?=h:1)/])).to eq words.width(plain[/.*(?=h:1)/])
  end

  it "writes times in six characters" do
    words = Plock::CLI::Top::Words.new
    expect([0, 9.94, 10, 59.9, 60, 754, 3_600, 86_399, 200_000].map { |s| words.short_span(s) })
      .to eq %w[0.0s 9.9s 10s 1m00s 1m00s 12m34s 1h00m 23h59m 2d07h]
    expect(words.short_span(nil)).to be_nil
  end
end
