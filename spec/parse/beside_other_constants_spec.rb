# frozen_string_literal: true

require "json"
require "ripper"
require "spec_helper"
require "support/constants"

# An application may define any class under Parse, and Parse Stack defines Parse::Object,
# Parse::File and more. If lib/parse names a core constant without `::`, Ruby may find such a
# class instead.
RSpec.describe "lib/parse beside an application's own constants of Parse" do
  files = Dir[File.join(Support::Examples::LIB, "parse/**/*.rb")]

  it "has files to look at" do
    expect(files.size).to be > 10
  end

  files.each do |file|
    it "writes :: before Ruby's constants in #{file.delete_prefix("#{Support::Examples::LIB}/")}" do
      own = files.flat_map { |path| Support::Constants.new(File.read(path)).defined }
      bare =
        Support::Constants
          .new(File.read(file))
          .bare
          .reject { |name, _line| own.include?(name) && name != "Parse" }
      expect(bare.map { |name, line| "#{name} in line #{line}" }).to be_empty
    end
  end

  describe "where each of them is a class that raises when it is used" do
    # all constants that lib/parse mentions, and the names that are most common in Parse Stack and
    # in applications
    names = files.flat_map { |path| Support::Constants.new(File.read(path)).mentioned }
    names |= %w[
      Object
      File
      String
      Hash
      Array
      Time
      Mutex
      Process
      Thread
      BasicObject
      Class
      Module
      Kernel
      Comparable
      Struct
      Proc
      Symbol
      Integer
      Float
      Numeric
      Random
      Monitor
      Queue
      Exception
      StandardError
      RuntimeError
      ArgumentError
      TypeError
      ThreadError
      IOError
      ConditionVariable
      Fiber
      Ractor
      ENV
      SecureRandom
      Plock
      Redis
      RedisClient
      ConnectionPool
      Moneta
      Logger
      Set
      Range
      Regexp
      Dir
      IO
    ]
    names -= %w[Parse Error Lock LockBackend Cache]

    before(:context) do
      skip "redis-server not installed" unless Support::RedisServer.installed?

      program = File.expand_path("beside_other_constants.rb", __dir__)
      @server = Support::RedisServer.start(:plain)
      output, status = ruby("load #{program.dump}", @server.unix_path, *names, within: 60)
      @heard = status.success? ? JSON.parse(output.lines.last) : raise(output)
    end

    after(:context) { @server&.stop }

    [
      "a plock store", "a URL", "a redis object", "a redis-client object", "a redis-client pool",
      "a ConnectionPool", "a wrapped ConnectionPool", "Moneta over Redis",
      "Moneta over Redis that compresses", "Parse::Cache::Redis", "a local store",
      "Moneta over files", "an object that locks", "an object that creates", "Parse.cache"
    ].each do |kind|
      it "locks in #{kind}, which another process sees" do
        expect(@heard.fetch(kind)).to eq(
          "value" => "inside", "degraded" => false, "rival" => "Parse::Lock::TimeoutError",
          "after" => "free"
        )
      end
    end

    [
      "nil", "Moneta in memory", "an object that is no store", "Parse.cache that fails"
    ].each do |kind|
      it "is degraded with #{kind}, and excludes within the process" do
        expect(@heard.fetch(kind)).to eq(
          "value" => "inside", "degraded" => true, "rival" => "Parse::Lock::TimeoutError",
          "after" => "free"
        )
      end
    end

    it "does with a degraded store as it is told" do
      expect(@heard.fetch("modes")).to match(
        "warn" => [/\A\[Parse::Lock\] Lock store is process-local; /],
        "warn_throttled" => [/\A\[Parse::Lock\] Lock store is process-local \(/], "proceed" => [],
        "raise" => "Parse::Lock::UnavailableError"
      )
    end

    it "has the parts of the lock under their names" do
      expect(@heard.fetch("backend")).to eq(
        "acquired" => [true, false], "released" => [true, false], "mutex" => [true, true, false],
        "synchronized" => "inside", "plain" => 1, "secret" => "the secret of all"
      )
    end

    it "warns of a store that fails, and does not enter the block" do
      expect(@heard.fetch("failing")).to match(
        "raised" => "Parse::Lock::TimeoutError",
        "warned" => ["[Parse::LockBackend] acquire error (IOError): gone"]
      )
    end

    it "frees what a killed thread held" do
      expect(@heard.fetch("killed")).to eq("nil" => "free", "an object that locks" => "free")
    end

    it "refuses what cannot be right" do
      expect(@heard.fetch("refused")).to eq(
        %w[
          ArgumentError
          ArgumentError
          ArgumentError
          ArgumentError
          TypeError
          FloatDomainError
          ArgumentError
        ]
      )
    end
  end
end
