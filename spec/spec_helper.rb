# frozen_string_literal: true

root = File.expand_path("..", __dir__)
# RSpec puts lib first in the load path. If RUBYLIB names another build of the extension, that
# build must come before lib.
[
  __dir__, "#{root}/lib", *ENV.fetch("RUBYLIB", "").split(File::PATH_SEPARATOR).reverse
].each do |folder|
  $LOAD_PATH.delete(folder)
  $LOAD_PATH.unshift(folder)
end

# Only this process needs this variable, and only under valgrind. Other Ruby processes would warn
# that it is experimental.
ENV.delete("RUBY_FREE_AT_EXIT")

# If the suite runs in the background or under nohup, it ignores these signals. The processes that
# examples start would then also ignore them.
%i[HUP QUIT].each { |signal| trap(signal, "DEFAULT") }

require "plock"
require "support/examples"
require "support/quick_start"

$VERBOSE = true # enables Ruby's own warnings about lib/
Support::Warnings.install

RSpec.configure do |config|
  config.include Support::Examples

  config.disable_monkey_patching!
  config.expect_with(:rspec) { |expectations| expectations.max_formatted_output_length = 2_000 }
  config.mock_with(:rspec) { |mocks| mocks.verify_partial_doubles = true }
  config.shared_context_metadata_behavior = :apply_to_host_groups
  config.filter_run_when_matching :focus
  config.order = :random
  Kernel.srand config.seed

  # The tag :timing marks examples that measure time. Under valgrind, leave them out with --tag
  # ~timing. The tag :alone marks examples that must run alone on the machine for another reason.
  # Neither kind runs beside other examples (spec/tasks/specs.rake). The tags :slow and :databases
  # mark examples that only `bin/test --full` runs. Examples with :databases need a gem that only
  # `bin/test --full` installs.
  %i[slow databases].each do |tag|
    config.define_derived_metadata(tag) do |metadata|
      metadata[:full_alone] = true if metadata[:timing] || metadata[:alone]
    end
  end

  # The tag `needs:` lists the programs that an example requires.
  config.before { |example| need(*example.metadata[:needs]) }
  # The tag `redis_version:` names the oldest server version that an example supports.
  config.before { |example| need_redis(example.metadata[:redis_version]) }

  # The tag :fibers marks examples that use several fibers. Only these examples load async,
  # because its libraries switch stacks when they are loaded, and valgrind does not notice that.
  config.before(:each, :fibers) { require "support/reactor" }

  # If an example hangs, the supervisor names it and ends the suite.
  config.around do |example|
    Support::Supervisor.begin_example(example.location, Support::Supervisor::EXAMPLE_DEADLINE)
    example.run
  ensure
    Support::Supervisor.end_example
    Support::Warnings.pass_over_leases if example.exception
  end

  # The tag :no_leaks marks examples that must close every socket that they open.
  config.around(:each, :no_leaks) do |example|
    next example.run unless Support::Inventory.available?

    shared_redis.client.call("PING") # opens the connection that may stay open
    before = Support::Inventory.connections
    example.run
    next if example.exception || example.skipped?

    eventually(2.0, "sockets leaked") { (Support::Inventory.connections - before).empty? }
  end

  config.after do
    discard_all
    unexpected = Support::Warnings.unexpected
    raise Support::Warnings::Unexpected, unexpected.join if unexpected.any?
  end

  config.before(:suite) { Support::QuickStart.install }
  # Starts the shared server before any example forks. Otherwise, children would start servers of
  # their own.
  config.before(:suite) { Support::RedisServer.shared if Support::RedisServer.installed? }
  config.after(:suite) { Support::Supervisor.stop }
end
