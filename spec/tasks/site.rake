# frozen_string_literal: true

# The documentation site. Its sources are the project's documents, YARD's comments and site/.

require_relative "parallel_specs"

SITE = "tmp/site"
SITE_SOURCES = FileList["*.md", "{bench,spec}/**/README.md", "{docs,lib}/**/*.{json,md,rb}",
                        "site/Rules", "site/**/*.{css,erb,js,rb,svg,yaml,yml}"]

file "#{SITE}/index.html" => SITE_SOURCES do
  rm_rf [SITE, "site/tmp", "tmp/yard-pages"], verbose: false # neither tool notices every change
  sh RbConfig.ruby, Gem.bin_path("yard", "yard"), "doc", "--quiet",
     "--load", "site/yard/highlight.rb", "--template-path", "site/yard",
     "--output-dir", "tmp/yard-pages", verbose: false
  chdir("site", verbose: false) do
    sh RbConfig.ruby, Gem.bin_path("nanoc", "nanoc"), "compile", verbose: false, out: File::NULL
  end
end

desc "Build the documentation site in tmp/site"
task site: "#{SITE}/index.html" do
  puts "#{Dir["#{SITE}/**/*.html"].size} pages in #{SITE}"
end

namespace :site do
  desc "Build the site, and check its HTML, its links and its pictures"
  task check: %i[compile site] do
    ParallelSpecs.alone(FileList["spec/site/*_spec.rb"], with: [], without: %w[browser])
  end

  desc "Build the site, and look at it in a browser; the pictures are in tmp/screenshots"
  task browser: %i[compile site] do
    ParallelSpecs.alone(FileList["spec/site/*_spec.rb"], with: %w[browser])
  end
end
