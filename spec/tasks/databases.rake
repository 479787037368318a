# frozen_string_literal: true

# The specs on database servers and memcached, which are slow because others are waited for: so two at a time, each with servers of
# its own.

namespace :spec do
  contract = "spec/plock/store/database_contract_spec.rb"

  RSpec::Core::RakeTask.new("databases:contract" => :compile) { |task| task.pattern = contract }
  RSpec::Core::RakeTask.new("databases:others" => :compile) do |task|
    task.pattern = ON_DATABASES
    task.exclude_pattern = contract
  end

  desc "Specs on database servers and memcached"
  multitask databases: %w[databases:contract databases:others]
end
