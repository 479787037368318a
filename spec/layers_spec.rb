# frozen_string_literal: true

# Checks that each folder of the engine includes only its own headers and those of the folders
# below it. docs/architecture.md explains the layers.
RSpec.describe "the layers of the engine" do
  core = File.expand_path("../ext/plock/core", __dir__)
  below = {
    "base" => [],
    "runtime" => %w[base],
    "net" => %w[base runtime],
    "redis" => %w[base runtime net],
    "local" => %w[base runtime]
  }
  public_headers = {
    "base" => %w[clock digest status],
    "runtime" => %w[lease notice operation process turn waker interest],
    "net" => %w[config],
    "redis" => %w[admin_session group query redis store],
    "local" => %w[local]
  }
  layer_of_header =
    public_headers.flat_map { |layer, names| names.map { |name| ["plock/#{name}.h", layer] } }.to_h

  includes = ->(file) do
    File
      .read(file)
      .scan(/^#include "([^"]+)"/)
      .flatten
      .map { |header| layer_of_header[header] || header[%r{\A(\w+)/}, 1] }
      .compact
  end

  it "has every source in one of them" do
    expect(Dir.children("#{core}/src").sort).to eq(below.keys.sort)
    expect(
      Dir["#{core}/include/plock/*.h"].map { |file| "plock/#{File.basename(file)}" }.sort
    ).to eq(layer_of_header.keys.sort)
  end

  below.each do |layer, lower|
    it "lets #{layer} include #{lower.empty? ? "nothing else" : lower.join(", ")}" do
      files =
        Dir["#{core}/src/#{layer}/*.[ch]"] +
        public_headers[layer].map { |name| "#{core}/include/plock/#{name}.h" }
      upward =
        files.to_h do |file|
          [file.delete_prefix("#{core}/"), includes.call(file) - [layer, *lower]]
        end
      expect(upward.reject { |_, layers| layers.empty? }).to eq({})
    end
  end

  it "has no two sources of one name, for their objects are in one folder" do
    names = Dir["#{core}/src/*/*.c", "#{core}/../*.c"].map { |file| File.basename(file) }
    expect(names.tally.select { |_, count| count > 1 }).to eq({})
  end

  it "shows the binding its public headers only" do
    headers =
      Dir["#{core}/../*.[ch]"]
        .flat_map { |file| File.read(file).scan(/^#include "([^"]+)"/).flatten }
        .uniq
    expect(headers).to contain_exactly("binding.h", "binding_direct.h", "plock.h")
  end

  it "has no file of more than 400 lines, like the rest of the library" do
    root = File.expand_path("..", __dir__)
    files = Dir["#{root}/{lib,ext}/**/*.{rb,c,h,lua}"].grep_v(%r{/core/build/})
    expect(files.select { |file| File.foreach(file).count > 400 }).to eq([])
  end

  it "is described by the names that the files have" do
    root = File.expand_path("..", __dir__)
    named =
      Dir["#{root}/docs/{architecture,decisions/*}.md"].flat_map do |page|
        File.read(page).scan(/`([a-z_]+\.(?:rb|c|h|lua))`/)
      end
    there = Dir["#{root}/{lib,ext,spec}/**/*.{rb,c,h,lua}"].map { |file| File.basename(file) }
    expect(named.flatten.uniq - there).to eq([])
  end
end
