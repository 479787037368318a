# frozen_string_literal: true

require "spec_helper"
require "plock/cli/table"

RSpec.describe Plock::CLI::Table do
  it "is as wide as its contents, and has a dash in empty cells" do
    columns = { "A" => ->(row) { row[0] }, "LONG" => ->(row) { row[1] }, "Z" => ->(row) { row[2] } }
    expect(described_class.lines(columns, [["ä" * 3, nil, 1], ["b", "x", nil]])).to eq [
      "A    LONG  Z",
      "äää  -     1",
      "b    x     -"
    ]
    expect(described_class.lines(columns, [])).to eq ["A  LONG  Z"]
  end

  it "leaves an optional column out if it is empty" do
    columns = { "A" => ->(row) { row[0] }, "B" => ->(row) { row[1] } }
    options = { optional: %w[A B] }
    expect(described_class.lines(columns, [[1, nil], [2, nil]], **options)).to eq %w[A 1 2]
    expect(described_class.lines(columns, [[nil, 3]], **options)).to eq %w[B 3]
  end
end
