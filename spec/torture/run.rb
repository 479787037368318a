# frozen_string_literal: true

# ruby spec/torture/run.rb [--seconds S] [--seed N] [--course NAME]
#                          [--topology sentinel|cluster | --adapter NAME | --store NAME]
#
# Without --store, the workers use Redis. --store names a store in Ruby (stores/). With --topology
# sentinel, Redis is a primary with two replicas and three sentinels, and it fails over (sentinel/).
# With --topology cluster, Redis is a cluster in which slots move and replicas take over (cluster/).
#
# A run has at least two rounds. With --course or --topology, it has at least one. Each round uses
# the next seed, which selects the round's course. Of two rounds, one has the course `rough` and
# the other has a different course. Twelve rounds cover all courses. A single round with the same
# seed and course makes the same decisions again.

$LOAD_PATH.unshift(File.expand_path("../../lib", __dir__))
shared = "/dev/shm"
# writes to /dev/shm do not wait for a disk
ENV["TMPDIR"] ||= shared if File.directory?(shared) && File.writable?(shared)
%w[PLOCK_URL PLOCK_SECRET].each { |name| ENV.delete(name) }
Warning[:experimental] = false # IO::Buffer would cause warnings

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

  # A round on a store in Ruby.
  def self.store_round(seed, seconds, kind, course)
    driver = Stores::Driver.new(seed: seed, seconds: seconds, kind: kind, course: course)
    driver.run
    history = Reader.new(driver.folder, driver.chronicle).history
    failures = Stores::Lane.failures(driver.folder)
    witness = Stores::Witness.new(history, kind, failures: failures, margin: course.margin).judge
    Stores::Report.new(seed, witness, course, kind)
  ensure
    FileUtils.rm_rf(driver.folder) if driver
  end

  # A round on servers with sentinels, or on a cluster.
  def self.topology_round(seed, seconds, topology, course)
    driver = topology::Driver.new(
      seed: seed, seconds: seconds, adapter: topology::Product, course: course
    )
    driver.run
    history = Reader.new(driver.folder, driver.chronicle).history
    Sentinel::Report.new(seed, topology::Witness.new(history, margin: course.margin).judge, course)
  ensure
    FileUtils.rm_rf(driver.folder) if driver
  end

  # Runs the rounds one after another.
  #
  # @yieldparam seed [Integer] the seed of a round
  # @return [Boolean] true if no round found a violation
  def self.rounds(seed, count)
    count.times.map do |round|
      report = yield seed + round
      puts report
      report.sound?
    end.all?
  end
end

STORES = %w[
  database-postgresql
  database-mariadb
  database-sqlite
  advisory-postgresql
  advisory-mariadb
  memcached
  locker-postgresql
  locker-mariadb
].freeze

seconds = nil
seed = Random.new_seed % 1_000_000
adapter = "product"
course = store = topology = nil
OptionParser.new do |options|
  options.banner = "usage: ruby spec/torture/run.rb [options]"
  options.on("--seconds S", Float, "how long (16; 30 with --store)") { |value| seconds = value }
  options.on("--seed N", Integer, "repeats a run's decisions") { |value| seed = value }
  names = Torture::COURSES.keys
  options.on(
    "--course NAME", "only rounds of: #{names.join(", ")}; with --store: rough, lasting"
  ) { |value| course = value.to_sym }
  names = Torture::ADAPTERS.keys
  options.on("--adapter NAME", names, "what to torture: #{names.join(", ")}") do |value|
    adapter = value
  end
  options.on("--store NAME", STORES, "what to torture instead: #{STORES.join(", ")}") do |value|
    store = value
  end
  options.on("--topology NAME", %w[sentinel cluster],
             "of the servers: sentinel, cluster") do |value|
    topology = value
  end
end.parse!

abort "--topology does not go with --store" if store && topology
if topology
  require_relative "#{topology}/driver"
  require_relative "sentinel/report"
  require_relative "#{topology}/witness"
  topology = Torture.const_get(topology.capitalize)
end
if store
  $LOAD_PATH.unshift(File.expand_path("..", __dir__))
  require_relative "stores/driver"
  require_relative "stores/report"
  require_relative "stores/witness"
end
courses = (store && Torture::Stores::COURSES) || (topology && topology::COURSES) ||
          Torture::COURSES
if course && !courses.key?(course)
  abort "there is no course #{course}, only: #{courses.keys.join(", ")}"
end
seconds ||= (store && 30.0) || (topology && 20.0) || 16.0

$stdout.sync = true
begin
  # with a topology, two short rounds would have no time for a failover
  least = course || topology ? 1 : Torture::LEAST_ROUNDS
  count = [(seconds / Torture::ROUND).ceil, least].max
  sound = Torture.rounds(seed, count) do |one|
    if store
      kind = Torture::Stores::KINDS.fetch(store)
      Torture.store_round(one, seconds / count, kind, Torture::Stores.course_of(one, kind, course))
    elsif topology
      Torture.topology_round(one, seconds / count, topology, topology.course_of(one, course))
    else
      taken = course ? Torture::COURSES.fetch(course) : Torture::Course.of(one)
      Torture.round(one, seconds / count, Torture::ADAPTERS.fetch(adapter), taken)
    end
  end
rescue Interrupt
  sound = false
ensure
  Support::Supervisor.stop
end
exit sound
