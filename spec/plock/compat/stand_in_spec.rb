# frozen_string_literal: true

require "spec_helper"
require "fileutils"
require "tmpdir"

# An application changes one line of its Gemfile, and still requires the gem by its old name.
RSpec.describe "A drop-in in the place of its gem" do
  let(:folder) { Dir.mktmpdir.tap { |path| discard(-> { FileUtils.remove_entry(path) }, :call) } }

  # An environment without this project's bundle. Installed gems can be loaded, but only plock is
  # in the load path.
  let(:unbundled) { { "RUBYOPT" => "-W1", "BUNDLE_GEMFILE" => nil, "RUBYGEMS_GEMDEPS" => nil } }

  def said(program, env: unbundled)
    output, status = ruby("Dir.chdir(#{folder.inspect})\n#{program}", env: env)
    [output.lines(chomp: true), status.success?]
  end

  # The folder of a gem that contains a file with this path.
  def gem_with(path, content)
    file = File.join(folder, "gem/lib", "#{path}.rb")
    FileUtils.mkdir_p(File.dirname(file))
    File.write(file, content)
    File.join(folder, "gem/lib")
  end

  doors = {
    "remote_lock" => [
      "RemoteLock",
      %w[remote_lock remote_lock/adapters/base remote_lock/adapters/memcached
         remote_lock/adapters/redis],
      'RemoteLock.new(RemoteLock::Adapters::Store.new("memory:")).synchronize("k") ' \
      '{ puts "inside" }'
    ],
    "locker" => ["Locker", %w[locker locker/locker locker/advisory], <<~RUBY],
      ActiveRecord::Base.establish_connection(adapter: "sqlite3", database: ":memory:")
      ActiveRecord::Schema.verbose = false
      ActiveRecord::Schema.define do
        create_table(:locks) do |t|
          t.string :key, null: false, index: { unique: true }
          t.string :locked_by
          t.datetime :locked_at
          t.datetime :locked_until
          t.bigint :sequence, null: false, default: 0
        end
      end
      class Lock < ActiveRecord::Base; end
      Locker.run("k", lock_for: 30) { puts "inside" }
    RUBY
    "with_transactional_lock" => [
      "WithTransactionalLock",
      %w[with_transactional_lock with_transactional_lock/mixin
         with_transactional_lock/my_sql_helper],
      'puts "inside" if ActiveRecord::Base.respond_to?(:with_transactional_lock)'
    ],
    "mongo_locking" => [
      "Mongo::Locking",
      %w[mongo/locking mongo/locking/locker mongo/locking/model_methods],
      <<~RUBY
        Mongo::Locking.configure(store: "memory:")
        Order = Struct.new(:id) { include Mongo::Locking }
        Order.lockable!
        Order.new(1).lock { puts "inside" }
      RUBY
    ]
  }
  doors.each do |door, (constant, paths, use)|
    describe "plock/compat/#{door}" do
      it "is found by require of #{paths.join(", ")}, in a folder without anything" do
        requires = paths.map { |path| "require #{path.inspect}" }.join("\n")
        expect(said("require 'plock/compat/#{door}'\n#{requires}\n#{use}")).to eq(
          [%w[inside], true]
        )
      end

      it "does not let the gem be loaded over it" do
        lib = gem_with(paths.first, "raise 'the gem was loaded'")
        expect(said("$LOAD_PATH.unshift(#{lib.inspect})\nrequire 'plock/compat/#{door}'\n" \
                    "puts require(#{paths.first.inspect})\n#{use}"))
          .to eq([%w[false inside], true])
      end

      it "refuses to be loaded over the gem, and says which file that is" do
        definition =
          constant.split("::").reduce("") { |text, name| "#{text}module #{name}; " } +
          ("end; " * constant.split("::").size)
        lib = gem_with(paths.first, definition)
        lines, success =
          said(
            "$LOAD_PATH.unshift(#{lib.inspect})\nrequire #{paths.first.inspect}\n" \
            "require 'plock/compat/#{door}'"
          )
        expect(success).to be(false)
        expect(lines.join).to include(
          "#{constant} is defined already, in #{lib}/#{paths.first}.rb. Remove the gem ",
          "Plock::UnsupportedError"
        )
      end
    end
  end

  it "leaves the names of other drop-ins to their gems" do
    expect(said(<<~RUBY)).to eq([["cannot load such file -- mongo/locking"], true])
      require "plock/compat/remote_lock"
      begin
        require "mongo/locking"
      rescue LoadError => e
        puts e.message
      end
    RUBY
  end

  it "refuses a constant that an application would load by its name" do
    lines, = said("autoload(:Locker, '/app/models/locker.rb')\nrequire 'plock/compat/locker'")
    expect(lines.join).to include("Locker is defined already, in /app/models/locker.rb")
  end

  it "stands in for the installed gem remote_lock, which is in this project's bundle" do
    skip "remote_lock not installed" if Gem::Specification.find_all_by_name("remote_lock").empty?

    lines, success =
      said(
        "require 'plock/compat/remote_lock'\nputs require('remote_lock')\n" \
        "#{doors["remote_lock"].last}",
        env: {}
      )
    expect([lines, success]).to eq([%w[false inside], true])
    lines, success = said("require 'remote_lock'\nrequire 'plock/compat/remote_lock'", env: {})
    expect([lines.join.include?("Remove the gem remote_lock"), success]).to eq([true, false])
  end
end
