# frozen_string_literal: true

# The binding's memory: its specs under valgrind. Examples that measure time have no meaning there, and what is written in
# Ruby alone has nothing to show.

desc "Specs of the binding under valgrind"
task valgrind: :compile do
  require "ruby_memcheck"
  require "ruby_memcheck/rspec/rake_task"

  options = RubyMemcheck::Configuration::DEFAULT_VALGRIND_OPTIONS - ["--trace-children=yes"]
  # The programs that specs start (servers, openssl) are not ours. Forked children say nothing: those that an example kills
  # would leave reports cut off in the middle. What a fork does to memory the engine's own tests see under ASan.
  # Without fair scheduling busy threads keep the others from running at all.
  options += %w[--trace-children=no --child-silent-after-fork=yes --fair-sched=try]
  configuration = RubyMemcheck::Configuration.new(binary_name: "plock", valgrind_options: options,
                                                  valgrind_suppressions_dir: File.expand_path("valgrind", __dir__))
  RubyMemcheck::RSpec::RakeTask.new(configuration, :memcheck) do |task|
    task.pattern = "spec/{plock_spec.rb,plock/**/*_spec.rb,parse/lock_spec.rb}"
    ruby_or_children = %w[testing testing/**/* events/**/* default_store order loading cli cli/**/* status_table guard/**/* sidekiq/**/*
                          active_job/**/* compat/**/*]
    task.exclude_pattern = "spec/plock/{#{ruby_or_children.join(",")}}_spec.rb,#{ON_DATABASES}"
    # Valgrind does not see that fibers change the stack, and looks through the whole heap at the end of every child.
    task.rspec_opts = "--tag ~timing --tag ~fibers --tag ~many_children"
  end
  ENV["PLOCK_EXAMPLE_DEADLINE"] ||= "300"
  Rake::Task[:memcheck].invoke
end
