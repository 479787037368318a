# frozen_string_literal: true

desc "Troubled workers and a witness: rake torture SECONDS=300 SEED=42 COURSE=dark STORE=memcached"
task torture: :compile do
  options = { "--seconds" => ENV["SECONDS"], "--seed" => ENV["SEED"], "--store" => ENV["STORE"],
              "--adapter" => ENV["ADAPTER"], "--course" => ENV["COURSE"] }.compact
  ruby "spec/torture/run.rb", *options.flatten
end
