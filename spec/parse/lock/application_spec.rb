# frozen_string_literal: true

require "parse/lock"

# Each example runs an application in its own process.
RSpec.describe "parse/lock/application" do
  def output_of(program) = ruby(program).first

  it "defines what the application has not" do
    expect(output_of(<<~RUBY)).to eq("[StandardError, 1, 2]\n")
      require "parse/lock"
      Parse.synchronize_create_store = 1
      Parse.synchronize_create_secret = 2
      p [Parse::Error.superclass, Parse.synchronize_create_store, Parse.synchronize_create_secret]
    RUBY
  end

  it "leaves what the application has as it is" do
    expect(output_of(<<~RUBY)).to eq("[RuntimeError, :theirs, :theirs]\n")
      module Parse
        class Error < RuntimeError; end

        class << self
          def synchronize_create_store = :theirs
          def synchronize_create_secret = :theirs
        end
      end
      require "parse/lock"
      p [Parse::Lock::TimeoutError.superclass.superclass,
         Parse.synchronize_create_store, Parse.synchronize_create_secret]
    RUBY
  end

  it "stays out of the way of an application that comes later" do
    expect(output_of(<<~RUBY)).to eq("kept\n")
      require "parse/lock"
      Parse.synchronize_create_store = "kept"
      module Parse
        class Error < StandardError; end

        class << self
          attr_accessor :synchronize_create_store, :synchronize_create_secret
        end
      end
      puts Parse.synchronize_create_store
    RUBY
  end

  it "can be autoloaded in either order, and by several threads at once, without a warning" do
    declared = <<~RUBY
      module Parse
        class Error < StandardError; end
        autoload :Lock, "parse/lock"
        autoload :LockBackend, "parse/lock_backend"
        class << self
          attr_accessor :synchronize_create_store, :synchronize_create_secret
        end
      end
      $VERBOSE = true
    RUBY
    expect(output_of("#{declared}Parse::LockBackend; p Parse::Lock::MAX_TTL")).to eq("30\n")
    expect(output_of("#{declared}Parse::Lock; p Parse::LockBackend.lock_store")).to eq("nil\n")
    expect(output_of(<<~RUBY)).to eq("[nil, 30, nil, 30]\n")
      #{declared}
      p 4.times.map { |i|
        Thread.new { i.even? ? Parse::LockBackend.lock_store : Parse::Lock::MAX_TTL }
      }.map(&:value)
    RUBY
  end
end
