# frozen_string_literal: true

require_relative "safe_compaction"

LONG_TORTURE_SECONDS = 1200
LONG_TORTURE_OF_A_STORE_SECONDS = 300
LONG_TORTURE_WITH_SENTINELS_SECONDS = 600
LONG_TORTURE_ON_A_CLUSTER_SECONDS = 600
SHORT_TORTURE_WITH_SENTINELS_SECONDS = 20
SHORT_TORTURE_ON_A_CLUSTER_SECONDS = 20
STORES_IN_RUBY = %w[database-postgresql database-mariadb database-sqlite
                    advisory-postgresql advisory-mariadb memcached
                    locker-postgresql locker-mariadb].freeze

# @param options [Hash{Symbol => Object}] the options of spec/torture/run.rb; nil leaves one out
def run_torture(options)
  arguments = options.compact.flat_map { |name, value| ["--#{name}", value.to_s] }
  sh(SAFE_COMPACTION, RbConfig.ruby, "spec/torture/run.rb", *arguments)
end

desc "Troubled workers and a witness: rake torture SECONDS=300 SEED=42 COURSE=dark STORE=memcached"
task torture: :compile do
  names = %i[seconds seed store adapter course topology]
  run_torture(names.to_h { |name| [name, ENV.fetch(name.to_s.upcase, nil)] })
end

desc "The same with failovers: servers that sentinels watch; TOPOLOGY=sentinel takes other settings"
task "torture:sentinel" => :compile do
  run_torture(topology: :sentinel, seconds: SHORT_TORTURE_WITH_SENTINELS_SECONDS)
end

desc "The same on a cluster whose slots move, and whose replicas take over"
task "torture:cluster" => :compile do
  run_torture(topology: :cluster, seconds: SHORT_TORTURE_ON_A_CLUSTER_SECONDS)
end

desc "The same for an hour and more: on Redis, with failovers, and on each store written in Ruby"
task "torture:long" => :compile do
  run_torture(seconds: LONG_TORTURE_SECONDS)
  run_torture(topology: :sentinel, seconds: LONG_TORTURE_WITH_SENTINELS_SECONDS)
  run_torture(topology: :cluster, seconds: LONG_TORTURE_ON_A_CLUSTER_SECONDS)
  STORES_IN_RUBY.each do |store|
    run_torture(store: store, seconds: LONG_TORTURE_OF_A_STORE_SECONDS)
  end
end
