# frozen_string_literal: true

require "spec_helper"
require "nokogiri"
require_relative "../../site/lib/sequence_diagram"

RSpec.describe SequenceDiagram do
  def source(steps) = <<~TEXT
    sequenceDiagram
      accTitle: A lock
      accDescr {
        One process locks.
        Another waits.
      }
      participant A as first process
      participant B as second process
      #{steps}
  TEXT

  def figure(steps) = Nokogiri::HTML5.fragment(described_class.new(source(steps), "lock").figure)

  def number(node, name) = node[name].to_f

  it "has a title and a description" do
    svg = figure("A->>B: hello").at_css("svg")
    texts = svg["aria-labelledby"].split.map { |id| svg.at_css("##{id}").text }
    expect(texts).to eq ["A lock", "One process locks. Another waits."]
  end

  it "draws what the source says, in its order" do
    texts = figure("A->>B: one\n  B-->>A: two\n  Note over A: three\n  A-xB: four").css("text")
    names = ["first process", "second process"] * 2 # each name appears at the top and at the bottom
    expect(texts.map(&:text)).to eq %w[one two three four] + names
    expect(texts.first(4).map { |text| number(text, "y") }).to eq(
      texts.first(4).map { |text| number(text, "y") }.sort
    )
  end

  it "keeps texts in the picture" do
    long = "a note that is longer than the distance of two participants, by far"
    ["Note over A,B: #{long}", "Note over A: #{long}", "A->>B: #{long}"].each do |step|
      svg = figure(step).at_css("svg")
      half = long.size * described_class::CHARACTER / 2
      text = svg.css("text").find { |node| node.text == long }
      expect(number(text, "x") - half).to be >= 0
      expect(number(text, "x") + half).to be <= number(svg, "width")
    end
  end

  it "surrounds what is in a loop" do
    svg = figure("A->>B: one\n  loop often\n  A->>B: two\n  end\n  A->>B: three")
    frame = svg.at_css("rect.frame")
    top = number(frame, "y")
    inside = svg.css("text.label").select do |text|
      number(text, "y").between?(top, top + number(frame, "height"))
    end
    expect(inside.map(&:text)).to eq ["two"]
  end

  it "refuses what it does not know, and a picture without a text" do
    expect { figure("A->>B") }.to raise_error(/unknown in a sequence diagram: A->>B/)
    expect { figure("A->>C: x") }.to raise_error(/no participant C/)
    expect { described_class.new("sequenceDiagram\n", "x") }.to raise_error(/accTitle and accDescr/)
  end
end
