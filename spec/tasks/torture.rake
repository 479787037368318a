# frozen_string_literal: true

desc "Workers that are killed, stopped and cut off, and a witness: rake torture SECONDS=300 SEED=42"
task torture: :compile do
  options = { "--seconds" => ENV["SECONDS"], "--seed" => ENV["SEED"], "--adapter" => ENV["ADAPTER"] }.compact
  ruby "spec/torture/run.rb", *options.flatten
end
