# frozen_string_literal: true

# The specs of the library under valgrind: the binding's memory. Examples that measure time have no meaning there.

desc "Specs of the library under valgrind"
task valgrind: :compile do
  require "ruby_memcheck"
  require "ruby_memcheck/rspec/rake_task"

  options = RubyMemcheck::Configuration::DEFAULT_VALGRIND_OPTIONS - ["--trace-children=yes"]
  # Forked children are looked at all the same; the programs that specs start (servers, openssl) are not ours.
  configuration = RubyMemcheck::Configuration.new(binary_name: "plock", valgrind_options: [*options, "--trace-children=no"])
  RubyMemcheck::RSpec::RakeTask.new(configuration, :memcheck) do |task|
    task.pattern = "spec/{plock,parse}/**/*_spec.rb"
    task.rspec_opts = "--tag ~timing"
  end
  Rake::Task[:memcheck].invoke
end
