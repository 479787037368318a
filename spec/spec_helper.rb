# frozen_string_literal: true

root = File.expand_path("..", __dir__)
# RSpec puts lib first; another build of the extension, named by RUBYLIB, goes before it.
[
  __dir__, "#{root}/lib", *ENV.fetch("RUBYLIB", "").split(File::PATH_SEPARATOR).reverse
].each do |folder|
  $LOAD_PATH.delete(folder)
  $LOAD_PATH.unshift(folder)
end

# meant for this process, under valgrind: others would say that it is experimental
ENV.delete("RUBY_FREE_AT_EXIT")

# In the background, or under nohup, these signals are ignored. The processes that examples start
# would inherit that.
%i[HUP QUIT].each { |signal| trap(signal, "DEFAULT") }

require "plock"
require "support/examples"

$VERBOSE = true # Ruby's own warnings about lib/ count
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

  # The tag :timing is on examples that measure time: under valgrind leave them out with --tag
  # ~timing. The tag :alone is on those that need the machine for themselves for another reason.
  # Neither kind runs beside other examples (spec/tasks/specs.rake). The tags :slow and :databases
  # are on examples that bin/test leaves to bin/test --full: the latter need a gem that only that
  # installs.
  %i[slow databases].each do |tag|
    config.define_derived_metadata(tag) do |metadata|
      metadata[:full_alone] = true if metadata[:timing] || metadata[:alone]
    end
  end

  # The tag needs: names the programs that an example cannot do without.
  config.before { |example| need(*example.metadata[:needs]) }
  # The tag redis_version: names the oldest server that an example can do with.
  config.before { |example| need_redis(example.metadata[:redis_version]) }

  # The tag :fibers is on examples that have several. Valgrind does not see that fibers change the
  # stack, so nothing is to do that before them, as libraries of async do where they are loaded.
  config.before(:each, :fibers) { require "support/reactor" }

  # One that hangs is named, and is the last one.
  config.around do |example|
    Support::Supervisor.begin_example(example.location, Support::Supervisor::EXAMPLE_DEADLINE)
    example.run
  ensure
    Support::Supervisor.end_example
    Support::Warnings.pass_over_leases if example.exception
  end

  # A tag for examples that must give back every socket that they opened.
  config.around(:each, :no_leaks) do |example|
    next example.run unless Support::Inventory.available?

    shared_redis.client.call("PING") # what stays open is opened before counting
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

  # Before any example forks, so that children find it instead of starting their own.
  config.before(:suite) { Support::RedisServer.shared if Support::RedisServer.installed? }
  config.after(:suite) { Support::Supervisor.stop }
end
