# frozen_string_literal: true

require "spec_helper"
require "yaml"

# Each promise of README.md has a test that fails when plock does not keep it: spec/promises.yml says which.
RSpec.describe "README.md's promises" do
  root = File.expand_path("..", __dir__)
  readme = File.read("#{root}/README.md")
  promises = YAML.safe_load_file("#{root}/spec/promises.yml")

  plain = ->(text) { text.gsub(/\s+/, " ").strip }

  # The bullets, each with the lines that belong to it, and the rows of tables without their heads.
  units = lambda do |section|
    bullets = section.scan(/^- .*(?:\n  .*)*/)
    tables = section.scan(/(?:^\|.*\n?)+/).map { |table| table.lines(chomp: true).drop(2) }
    [*bullets, *tables.flatten].map(&plain)
  end

  promises.each do |title, entries|
    describe "in \"#{title}\"" do
      section = readme[/^## #{Regexp.escape(title)}\n(.*?)(?=^## |\z)/m, 1]

      it "stand in the README" do
        expect(section).not_to be_nil, "README.md has no section \"#{title}\": change its name in spec/promises.yml"
      end

      next unless section

      found = units.call(section)

      it "are bullets or rows" do
        expect(found).not_to be_empty
      end

      found.each do |unit|
        it "have a test: #{unit[0, 70]}…" do
          named = entries.any? { |entry| unit.include?(plain.call(entry["says"])) }
          expect(named).to be(true), "spec/promises.yml does not name a test for: #{unit}"
        end
      end

      entries.each do |entry|
        says, tests = entry.values_at("says", "shown_by")

        it "still say: #{says[0, 70]}…" do
          expect(plain.call(section)).to include(plain.call(says))
        end

        it "are shown by tests that exist: #{says[0, 70]}…" do
          expect(tests).not_to be_empty
          tests.flat_map(&:to_a).each do |file, words|
            path = File.join(root, file)
            expect(File).to exist(path), "#{file} does not exist"
            there = File.read(path).include?(words)
            expect(there).to be(true), "#{file} has nothing that says: #{words}"
          end
        end
      end
    end
  end

  it "are those of all sections that promise something" do
    expect(promises.keys).to contain_exactly(*readme.scan(/^## (.*(?:promise|guarantee is worth).*)$/).flatten)
  end
end
