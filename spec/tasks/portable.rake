# frozen_string_literal: true

# The specs of the library once more, over an extension built without the Linux-only calls.

PORTABLE = "tmp/portable"

# Front doors on stores that are written in Ruby, as those on databases: the extension has no part in them.
IN_RUBY = "spec/plock/compat/{remote_lock/memcached,mongo_locking/collection_store,mongo_locking/driver}_spec.rb"

namespace :spec do
  task "portable:compile" do
    mkdir_p %W[#{PORTABLE}/build #{PORTABLE}/lib/plock]
    chdir("#{PORTABLE}/build") do
      sh RbConfig.ruby, "../../../ext/plock/extconf.rb", "--disable-linux-calls"
      sh "make"
    end
    cp "#{PORTABLE}/build/plock.#{RbConfig::CONFIG["DLEXT"]}", "#{PORTABLE}/lib/plock"
  end

  desc "Specs of the library, the extension built without the Linux-only calls"
  RSpec::Core::RakeTask.new(portable: "portable:compile") do |task|
    task.pattern = "spec/{plock_spec.rb,plock/**/*_spec.rb,parse/**/*_spec.rb}"
    task.exclude_pattern = "#{ON_DATABASES},#{IN_RUBY}"
  end
  task("portable:select") { ENV["RUBYLIB"] = [File.expand_path("#{PORTABLE}/lib"), ENV.fetch("RUBYLIB", nil)].compact.join(":") }
  task portable: "portable:select"
end
