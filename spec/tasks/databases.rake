# frozen_string_literal: true

# The specs on database servers and memcached. Most of their time they wait for somebody, so several run at once, each with servers of
# its own.

namespace :spec do
  parts = { tables: "spec/plock/store/database_contract_spec.rb", mysql: "spec/plock/store/database_contract_on_mysql_spec.rb",
            advisory: "spec/plock/store/advisory_contract_spec.rb" }
  parts[:others] = FileList[ON_DATABASES].exclude(*parts.values)

  parts.each do |name, files|
    RSpec::Core::RakeTask.new("databases:#{name}" => :compile) { |task| task.pattern = files }
  end

  desc "Specs on database servers and memcached"
  multitask databases: parts.keys.map { |name| "databases:#{name}" }
end
