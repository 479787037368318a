# frozen_string_literal: true

require "support/preloaded_process"
require "support/parse_server"

# Programs that use the real gem. Each runs in a process of its own, because the gem changes many
# classes. Two processes load the gem, one with plock's locks and one without. They fork the
# programs.
RSpec.shared_context "with parse-stack-next" do
  before(:context) do
    if Gem::Specification.find_all_by_name("parse-stack-next").empty?
      skip "parse-stack-next not installed (it takes Ruby 3.2)"
    end

    secret = { "PARSE_STACK_LOCK_SECRET" => "the secret of all processes" }
    gem = "require 'parse-stack-next'; require 'moneta'; require 'redis'"
    @preloaded = {
      true => Support::PreloadedProcess.new("#{gem}; require 'plock/parse_stack'", env: secret),
      false => Support::PreloadedProcess.new(gem, env: secret)
    }
  end

  after(:context) { @preloaded&.each_value(&:stop) }

  let(:secret) { "the secret of all processes" }
  let(:parse_server) { discard(Support::ParseServer.new, :stop) }
  let(:cache) { "Parse::Cache::Redis.new(url: #{shared_redis.url(db: 3).inspect})" }

  # The beginning of a program. The program's locks are in this cache.
  def preamble(cache)
    <<~RUBY
      $stderr.reopen(File::NULL) # the gem says what it caches
      Parse.setup(server_url: #{parse_server.url.inspect}, app_id: "app", api_key: "key",
                  master_key: "master", cache: #{cache})
      $stderr.reopen($stdout)
    RUBY
  end

  # The program's output.
  def told(program, ours: true, cache: self.cache) =
    @preloaded.fetch(ours).run(preamble(cache) + program)

  # A program that keeps running. The example writes to it and reads from it.
  def running(program, ours:) =
    discard(@preloaded.fetch(ours).start(preamble(cache) + program), :close)
end
