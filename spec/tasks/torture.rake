# frozen_string_literal: true

LONG_TORTURE_SECONDS = 1200
LONG_TORTURE_OF_A_STORE_SECONDS = 300
LONG_TORTURE_WITH_SENTINELS_SECONDS = 600
LONG_TORTURE_ON_A_CLUSTER_SECONDS = 600
SHORT_TORTURE_WITH_SENTINELS_SECONDS = 20
SHORT_TORTURE_ON_A_CLUSTER_SECONDS = 20
STORES_IN_RUBY = %w[database-postgresql database-mariadb database-sqlite
                    advisory-postgresql advisory-mariadb memcached
                    locker-postgresql locker-mariadb].freeze

desc "Troubled workers and a witness: rake torture SECONDS=300 SEED=42 COURSE=dark STORE=memcached"
task torture: :compile do
  options = { "--seconds" => ENV["SECONDS"], "--seed" => ENV["SEED"], "--store" => ENV["STORE"],
              "--adapter" => ENV["ADAPTER"], "--course" => ENV["COURSE"],
              "--topology" => ENV["TOPOLOGY"] }.compact
  ruby "spec/torture/run.rb", *options.flatten
end

desc "The same with failovers: servers that sentinels watch; TOPOLOGY=sentinel takes other settings"
task "torture:sentinel" => :compile do
  ruby "spec/torture/run.rb", "--topology", "sentinel", "--seconds",
       SHORT_TORTURE_WITH_SENTINELS_SECONDS.to_s
end

desc "The same on a cluster whose slots move, and whose replicas take over"
task "torture:cluster" => :compile do
  ruby "spec/torture/run.rb", "--topology", "cluster", "--seconds",
       SHORT_TORTURE_ON_A_CLUSTER_SECONDS.to_s
end

desc "The same for an hour and more: on Redis, with failovers, and on each store written in Ruby"
task "torture:long" => :compile do
  ruby "spec/torture/run.rb", "--seconds", LONG_TORTURE_SECONDS.to_s
  ruby "spec/torture/run.rb", "--topology", "sentinel", "--seconds",
       LONG_TORTURE_WITH_SENTINELS_SECONDS.to_s
  ruby "spec/torture/run.rb", "--topology", "cluster", "--seconds",
       LONG_TORTURE_ON_A_CLUSTER_SECONDS.to_s
  STORES_IN_RUBY.each do |store|
    ruby "spec/torture/run.rb", "--seconds", LONG_TORTURE_OF_A_STORE_SECONDS.to_s, "--store", store
  end
end
