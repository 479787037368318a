# frozen_string_literal: true

# The model of the waiting protocol (spec/model/README.md). It needs no compiled code.

module ModelChecker
  extend Rake::DSL

  PROGRAM = "spec/model/model.rb"
  LOCAL = "spec/model/local/model.rb"

  module_function

  # Uses YJIT if this Ruby has it. Then the model takes half the time.
  def run(*arguments, of: PROGRAM)
    ruby(*("--yjit" if yjit?), of, *arguments)
  end

  def yjit?
    system(
      RbConfig.ruby, "--yjit", "-e", "exit !!RubyVM::YJIT.enabled?", out: File::NULL,
      err: File::NULL
    )
  end
end

desc "Check the model of the waiting protocol, in small scenarios"
task(:model) { ModelChecker.run }

namespace :model do
  desc "Check that the waiting protocol breaks without any one of its rules"
  task(:rules) { ModelChecker.run("--needed") }

  desc "Check the waiting protocol's model in all scenarios, and without each rule"
  task(:full) { ModelChecker.run("--full") }

  desc "Check the local store's model, or tell what happens without a rule: " \
       "rake 'model:local[repair]'"
  task(:local, [:rule]) do |_, arguments|
    ModelChecker.run(*("--without" if arguments.rule), *arguments.rule, of: ModelChecker::LOCAL)
  end

  desc "Tell what happens without one of the protocol's rules: rake 'model:without[drain]'"
  task(:without, [:rule]) { |_, arguments| ModelChecker.run("--without", arguments.fetch(:rule)) }
end
