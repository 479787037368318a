# frozen_string_literal: true

desc "Check the signatures in sig/"
task :signatures do
  ruby Gem.bin_path("rbs", "rbs"), "-I", "sig", "validate"
end
