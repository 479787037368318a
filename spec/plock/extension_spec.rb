# frozen_string_literal: true

require "spec_helper"
require "fileutils"

RSpec.describe "A checkout that is not built" do
  root = Support::Examples::LIB.delete_suffix("/lib")

  let(:checkout) { File.join(Support::Supervisor.folder, "checkout-#{SecureRandom.hex(4)}") }

  before do
    FileUtils.mkdir_p(checkout)
    FileUtils.cp_r(%w[lib plock.gemspec].map { |name| File.join(root, name) }, checkout)
    FileUtils.rm_f(Dir["#{checkout}/lib/plock/plock.*"])
    File.write("#{checkout}/Gemfile", "gem 'plock', path: '.'\n")
  end

  # Runs the program without this process's bundle.
  def run_there(program)
    env = {
      "BUNDLE_GEMFILE" => "#{checkout}/Gemfile", "RUBYLIB" => nil, "RUBYOPT" => nil,
      "BUNDLER_SETUP" => nil
    }
    output, writer = IO.pipe
    Process.wait(
      Process.spawn(env, RbConfig.ruby, "-e", program, %i[out err] => writer, :chdir => checkout)
    )
    writer.close
    [output.read, $?]
  end

  ["Bundler.require", 'require "plock"', 'require "parse/lock"'].each do |load|
    it "says what to run if #{load} finds it" do
      output, status = run_there("require 'bundler/setup'; #{load}; puts 'loaded'")
      expect(status).not_to be_success
      expect(output).to include(
        "plock's extension is not built in #{checkout}: run bin/setup there, or bundle exec rake " \
        "compile (Bundler compiles nothing for a gem with path:) (LoadError)"
      )
    end
  end
end
