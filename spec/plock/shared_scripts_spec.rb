# frozen_string_literal: true

require "spec_helper"
require "support/scripts"

# What the scripts of locks with several holders do where their calls meet in an order that is rare.
RSpec.describe "The scripts of locks with several holders" do
  let(:server) { shared_redis }
  let(:scripts) { Support::Scripts.new(server.client, unique_key) }

  def one(share, **options) = Support::Sharer.new(scripts, share, **options)

  def listening(share, **options) = discard(one(share, **options).listen(server), :close)

  def inside(share, **options) = one(share, **options).tap { |sharer| expect(sharer.ask).to be true }

  it "let one who asks while his connection is being made again in by the place to which he was called" do
    first = inside("s2")
    second = inside("s2")
    waiting = listening("s2")
    waiting.queue
    expect([first, second].map(&:release)).to eq [2, 1]
    expect(waiting.hears).to eq "+"
    expect(waiting.ask).to be true
    expect(one("s2").ask).to be true # he took one place, not two
    expect(one("s2").ask).to be_an(Integer)
  end
end
