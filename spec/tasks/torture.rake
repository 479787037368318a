# frozen_string_literal: true

LONG_TORTURE_SECONDS = 1200
LONG_TORTURE_OF_A_STORE_SECONDS = 300
STORES_IN_RUBY = %w[database-postgresql database-mariadb database-sqlite
                    advisory-postgresql advisory-mariadb memcached
                    locker-postgresql locker-mariadb].freeze

desc "Troubled workers and a witness: rake torture SECONDS=300 SEED=42 COURSE=dark STORE=memcached"
task torture: :compile do
  options = { "--seconds" => ENV["SECONDS"], "--seed" => ENV["SEED"], "--store" => ENV["STORE"],
              "--adapter" => ENV["ADAPTER"], "--course" => ENV["COURSE"] }.compact
  ruby "spec/torture/run.rb", *options.flatten
end

desc "The same for an hour and more: on Redis, and on each store that is written in Ruby"
task "torture:long" => :compile do
  ruby "spec/torture/run.rb", "--seconds", LONG_TORTURE_SECONDS.to_s
  STORES_IN_RUBY.each do |store|
    ruby "spec/torture/run.rb", "--seconds", LONG_TORTURE_OF_A_STORE_SECONDS.to_s, "--store", store
  end
end
