# frozen_string_literal: true

require "spec_helper"
require "plock/web"

RSpec.describe Plock::Web::History do
  let(:history) { described_class.new }

  def see(at, held, waiting)
    history.add(
      instance_double(Plock::Survey::Snapshot, at: Time.at(at), held: held, waiting: waiting)
    )
  end

  def line(name) = Plock::Web::Sparkline.new(history.samples, name)

  it "keeps ten minutes" do
    [0, 300, 600, 601].each { |at| see(at, at, 0) }
    expect(history.samples.map(&:held)).to eq [300, 600, 601]
  end

  it "is drawn as a line from the least to the most, from left to right" do
    [[0, 4], [30, 10], [60, 7]].each { |at, held| see(at, held, 2) }
    expect(line(:held)).to have_attributes(
      drawn?: true, least: 4, most: 10, span: 60.0, points: "3.0,45.0 120.0,3.0 237.0,24.0"
    )
    expect(line(:waiting).points).to eq "3.0,24.0 120.0,24.0 237.0,24.0"
  end

  it "is not drawn before there are two numbers" do
    expect(line(:held)).not_to be_drawn
    see(0, 1, 1)
    expect(line(:held)).not_to be_drawn
  end
end
