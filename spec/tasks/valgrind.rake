# frozen_string_literal: true

# Runs the binding's specs under valgrind to find memory errors. Examples that measure time are
# left out, because their times mean nothing under valgrind. Specs of Ruby code are left out,
# because Ruby code cannot have memory errors.

# Valgrind runs each part on one processor, so there is one part for each processor, up to four.
VALGRIND_PARTS = ENV["SPEC"] ? 1 : Etc.nprocessors.clamp(1, 4)

# Specs that make each call of the binding at least once, on Redis and on a local store. They are
# few enough for `bin/test --full`.
VALGRIND_BASICS = "spec/plock/{direct,gc,hold,lease_threads,local_store,pool,ractor,semaphore," \
                  "read_write_lock,several_keys,store,wait_queue}_spec.rb"

def run_under_valgrind(pattern)
  parts = Array.new(VALGRIND_PARTS) do |number|
    part = "valgrind:part[#{number},#{pattern.tr(",", ";")}]"
    Process.spawn(RbConfig.ruby, Gem.bin_path("rake", "rake"), "--silent", part)
  end
  failed = parts.reject { |pid| Process.wait2(pid).last.success? }
  abort "valgrind: #{failed.size} of #{parts.size} parts failed" unless failed.empty?
end

desc "Specs of the binding under valgrind"
task(valgrind: :compile) do
  run_under_valgrind("spec/{plock_spec,plock/**/*_spec,parse/lock_spec}.rb")
end

desc "The basics of the binding under valgrind"
task("valgrind:some" => :compile) { run_under_valgrind(VALGRIND_BASICS) }

task "valgrind:part", [:number, :pattern] do |_, arguments|
  require "ruby_memcheck"
  require "ruby_memcheck/rspec/rake_task"

  options = RubyMemcheck::Configuration::DEFAULT_VALGRIND_OPTIONS - ["--trace-children=yes"]
  # Valgrind does not follow the programs that specs start (servers, openssl). Forked children
  # report nothing, because examples kill some of them in the middle of a report. The engine's own
  # tests check memory after a fork under ASan. Without fair scheduling, busy threads keep the
  # others from running. Examples have up to 600 threads, and valgrind ends a process that exceeds
  # --max-threads.
  options += %w[
    --trace-children=no
    --child-silent-after-fork=yes
    --fair-sched=try
    --max-threads=1000
  ]
  configuration =
    RubyMemcheck::Configuration.new(
      binary_name: "plock", valgrind_options: options,
      valgrind_suppressions_dir: File.expand_path("valgrind", __dir__)
    )
  RubyMemcheck::RSpec::RakeTask.new(configuration, :memcheck) do |task|
    ruby_or_children = %w[
      testing
      testing/**/*
      events/**/*
      default_store
      order
      loading
      cli
      cli/**/*
      status_table
      survey
      survey/**/*
      web/**/*
      guard/**/*
      sidekiq/**/*
      active_job/**/*
      compat/**/*
    ]
    files = FileList[arguments.pattern.tr(";", ",")] # commas separate a task's arguments
    files.exclude("spec/plock/{#{ruby_or_children.join(",")}}_spec.rb", ON_DATABASES)
    task.pattern =
      files.to_a.sort.select.with_index do |_, index|
        index % VALGRIND_PARTS == arguments.number.to_i
      end
    # Examples with fibers are left out, because valgrind does not notice that a fiber switches the
    # stack. Examples with many children are left out, because under valgrind each child takes
    # seconds.
    task.rspec_opts = "--tag ~timing --tag ~fibers --tag ~many_children"
  end
  ENV["PLOCK_VALGRIND"] = "1" # children of the suite end without a search of their heap
  ENV["PLOCK_EXAMPLE_DEADLINE"] ||= "600"
  Rake::Task[:memcheck].invoke
end
