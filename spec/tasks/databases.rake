# frozen_string_literal: true

# The specs on database servers and memcached, and of all front doors. Most of their time they wait for somebody, so several run at once,
# each with servers of its own; and after them, alone, the examples that measure time.

namespace :spec do
  stores = "spec/plock/store"
  parts = { tables: ["#{stores}/database_contract_spec.rb"], tables_on_mysql: ["#{stores}/database_contract_on_mysql_spec.rb"],
            advisory: ["#{stores}/advisory_contract_spec.rb"],
            advisory_on_mysql: ["#{stores}/advisory_contract_on_mysql_spec.rb", *FileList["#{stores}/memcached*_spec.rb"]] }
  parts[:front_doors] = FileList[FRONT_DOORS]
  parts[:others] = FileList[ON_DATABASES].exclude(*parts.values.flatten)

  parts.each do |name, files|
    RSpec::Core::RakeTask.new("databases:#{name}" => :compile) do |task|
      task.pattern = files
      task.rspec_opts = "--tag ~timing"
    end
  end

  # Three at a time: of more, two processors would keep each one waiting for longer than its leases are made for.
  waves = parts.keys.each_slice(3).map do |names|
    multitask("databases:#{names.join("_and_")}" => names.map { |name| "databases:#{name}" })
  end
  task("databases:parts") { waves.each(&:invoke) }

  RSpec::Core::RakeTask.new("databases:timing" => "databases:parts") do |task|
    task.pattern = parts.values.flatten
    task.rspec_opts = "--tag timing"
  end

  desc "Specs on database servers and memcached, and of front doors"
  task databases: "databases:timing"
end
