# frozen_string_literal: true

# ruby spec/torture/run.rb [--seconds S] [--seed N] [--adapter NAME]
#
# Longer runs are made of rounds, each with the next seed: so what a round found is found again by that round alone.

$LOAD_PATH.unshift(File.expand_path("../../lib", __dir__))
shared = "/dev/shm"
ENV["TMPDIR"] ||= shared if File.directory?(shared) && File.writable?(shared) # what is written there is never waited for
%w[PLOCK_URL PLOCK_SECRET].each { |name| ENV.delete(name) }
Warning[:experimental] = false # IO::Buffer

require "optparse"
require_relative "driver"
require_relative "reader"
require_relative "report"

module Torture
  ROUND = 30.0

  def self.round(seed, seconds, adapter)
    driver = Driver.new(seed: seed, seconds: seconds, adapter: adapter)
    driver.run
    Report.new(seed, Witness.new(Reader.new(driver.folder, driver.chronicle).history).judge)
  ensure
    FileUtils.rm_rf(driver.folder) if driver
  end
end

seconds = 20.0
seed = Random.new_seed % 1_000_000
adapter = "product"
OptionParser.new do |options|
  options.banner = "usage: ruby spec/torture/run.rb [options]"
  options.on("--seconds S", Float, "how long (20)") { |value| seconds = value }
  options.on("--seed N", Integer, "repeats a run's decisions") { |value| seed = value }
  names = Torture::ADAPTERS.keys
  options.on("--adapter NAME", names, "what to torture: #{names.join(", ")}") { |value| adapter = value }
end.parse!

$stdout.sync = true
sound = true
begin
  rounds = (seconds / Torture::ROUND).ceil
  rounds.times do |round|
    report = Torture.round(seed + round, seconds / rounds, Torture::ADAPTERS.fetch(adapter))
    puts report
    sound &&= report.sound?
  end
rescue Interrupt
  sound = false
ensure
  Support::Backstage.stop
end
exit sound
