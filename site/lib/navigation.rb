# frozen_string_literal: true

require "yaml"

# The menu, as navigation.yml has it. The layout calls its methods.
module Navigation
  SECTIONS = YAML.load_file(File.expand_path("../navigation.yml", __dir__))

  # children: the other pages in the folder of a README.md, in the order in which that page links
  # to them
  Entry = Struct.new(:source, :path, :label, :children) do
    def self.of(items, source, label = nil, children: [])
      item = items["/#{source}"] or raise "site/navigation.yml names #{source}, a missing page"
      new(source, item[:path], label || item[:title], children)
    end

    def here?(item) = source == item[:source]

    # Does the menu show the children?
    def open?(item) = [self, *children].any? { |entry| entry.here?(item) }
  end

  # @return [Hash{String => Array<Entry>}] the pages of each section
  def self.sections(items)
    @sections ||= SECTIONS.to_h do |section|
      entries = section["pages"].map do |source, label|
        children = beside(source).map { |child| Entry.of(items, child) }
        Entry.of(items, source, label, children: children)
      end
      [section["title"], entries]
    end
  end

  def self.beside(source)
    return [] unless source.match?(%r{\Adocs/.*/README\.md\z})

    links = Support::Documents.page(source).links.grep(/\A[\w-]+\.md\z/).uniq
    links.map { |link| "#{File.dirname(source)}/#{link}" }
  end

  def self.all(items)
    sections(items).values.flatten(1).flat_map { |entry| [entry, *entry.children] }
  end

  # Stops the build if a reader could not find a page.
  def self.check(items)
    documents = items.map { |item| item[:source].to_s }.grep(%r{\Adocs/.*\.md\z})
    lost = documents - all(items).map(&:source)
    raise "site/navigation.yml has no place for #{lost.join(", ")}" if lost.any?
  end

  def link_of(entry)
    current = ' aria-current="page"' if entry.here?(@item)
    %(<a href="#{entry.path}"#{current}>#{h(entry.label)}</a>)
  end

  def sections = Navigation.sections(@items)

  # @return [Array(Entry, Entry)] the pages before and after this one in the menu, or nil
  def neighbours
    all = Navigation.all(@items)
    here = all.index { |entry| entry.here?(@item) }
    here ? [(all[here - 1] if here.positive?), all[here + 1]] : [nil, nil]
  end
end

use_helper Navigation
