# frozen_string_literal: true

# ruby spec/torture/run.rb [--seconds S] [--seed N] [--course NAME] [--adapter NAME]
#
# A run is made of two or more rounds, each with the next seed, which decides its course: so it has
# both a rough round and one of the special courses, and twelve rounds have them all. A round alone,
# with its course named, finds again what it found.

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
  LEAST_ROUNDS = 2

  def self.round(seed, seconds, adapter, course)
    driver = Driver.new(seed: seed, seconds: seconds, adapter: adapter, course: course)
    driver.run
    history = Reader.new(driver.folder, driver.chronicle).history
    Report.new(seed, Witness.new(history, margin: course.margin).judge, course)
  ensure
    FileUtils.rm_rf(driver.folder) if driver
  end
end

seconds = 16.0
seed = Random.new_seed % 1_000_000
adapter = "product"
course = nil
OptionParser.new do |options|
  options.banner = "usage: ruby spec/torture/run.rb [options]"
  options.on("--seconds S", Float, "how long (16)") { |value| seconds = value }
  options.on("--seed N", Integer, "repeats a run's decisions") { |value| seed = value }
  courses = Torture::COURSES.transform_keys(&:to_s)
  options.on("--course NAME", courses.keys, "only rounds of: #{courses.keys.join(", ")}") do |value|
    course = courses.fetch(value)
  end
  names = Torture::ADAPTERS.keys
  options.on("--adapter NAME", names, "what to torture: #{names.join(", ")}") { |value| adapter = value }
end.parse!

$stdout.sync = true
sound = true
begin
  rounds = [(seconds / Torture::ROUND).ceil, course ? 1 : Torture::LEAST_ROUNDS].max
  rounds.times do |round|
    taken = course || Torture::Course.of(seed + round)
    report = Torture.round(seed + round, seconds / rounds, Torture::ADAPTERS.fetch(adapter), taken)
    puts report
    sound &&= report.sound?
  end
rescue Interrupt
  sound = false
ensure
  Support::Backstage.stop
end
exit sound
