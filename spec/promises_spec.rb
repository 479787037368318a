# frozen_string_literal: true

require "spec_helper"
require "support/documents"
require "yaml"

# Each promise of README.md and docs/ has a test that fails if plock does not keep the promise.
# spec/promises.yml names the tests.
RSpec.describe "The promises of README.md and docs/" do
  root = Support::Documents::ROOT
  promises = YAML.safe_load_file("#{root}/spec/promises.yml")

  plain = ->(text) { text.gsub(/\s+/, " ").strip }

  # Returns the bullets, each with all its lines, and the rows of tables without their header rows.
  units = ->(section) do
    bullets = section.scan(/^- .*(?:\n  .*)*/)
    tables = section.scan(/(?:^\|.*\n?)+/).map { |table| table.lines(chomp: true).drop(2) }
    [*bullets, *tables.flatten].map(&plain)
  end

  promises.each do |path, sections|
    sections.each do |title, entries|
      describe "of #{path}, \"#{title}\"" do
        section = Support::Documents.page(path).section(title)

        it "stand in the page" do
          missing = "#{path} has no section \"#{title}\": change its name in spec/promises.yml"
          expect(section).not_to be_nil, missing
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
  end

  it "are those of all sections that promise something" do
    promising = Support::Documents.pages.flat_map do |page|
      page.titles.grep(/promise|guarantee is worth/).map { |title| [page.path, title] }
    end
    named = promises.flat_map { |path, sections| sections.keys.map { |title| [path, title] } }
    expect(named).to match_array(promising)
  end
end
