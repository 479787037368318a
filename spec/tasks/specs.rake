# frozen_string_literal: true

# Groups the specs that run together. `rake spec` runs the specs that need no database. The other
# tasks are for `bin/test --full`.

require_relative "parallel_specs"

ALL_SPECS = "spec/**/*_spec.rb"

# Specs of stores and drop-ins that need database servers, memcached or their drivers. They run
# separately, because loading the drivers would make all garbage collections of the process
# slower.
ON_DATABASES =
  "spec/{plock/{store,compat/{locker,with_transactional_lock}},torture/stores}/**/*_spec.rb"
DROP_INS = "spec/plock/compat/{remote_lock,mongo_locking,stand_in}{/**/*,}_spec.rb"

# Specs that need Rails applications, or the gem whose lock Parse::Lock replaces.
ON_RAILS = "spec/{rails,parse_stack}/**/*_spec.rb"

# Specs of the documentation site (site.rake).
ON_SITE = "spec/site/**/*_spec.rb"

# Specs of the plock/web pages, in a browser.
IN_BROWSER = "spec/web/**/*_spec.rb"

# Specs of the library that need no database.
LIBRARY = FileList["spec/{plock_spec.rb,plock/**/*_spec.rb,parse/**/*_spec.rb}"]
          .exclude(ON_DATABASES)

# Specs of Ruby code that makes no system calls of its own. spec:portable leaves them out, because
# the specs of the engine and the binding already test each system call.
IN_RUBY =
  ["spec/plock/{active_job,client_address,compat,guard,metrics,sidekiq,survey,testing,traces,web}" \
   "{/**/*,}_spec.rb",
   "spec/plock/{configuration,logs,observability,status_table}_spec.rb",
   "spec/plock/{sentinel/doctor,cli/{doctor,list,secret,settings,status,top,web}*}_spec.rb"].freeze
# These specs repeat the store contract for a user that may call functions, but no scripts. So
# spec:portable leaves them out.
ON_FUNCTIONS = "spec/plock/{,cluster/}functions_spec.rb"
PORTABLE_SPECS = LIBRARY.dup.exclude(*IN_RUBY, ON_FUNCTIONS)

DATABASE_SPECS = FileList[ON_DATABASES, DROP_INS]
SPECS = FileList[ALL_SPECS].exclude(ON_DATABASES, DROP_INS, ON_RAILS, ON_SITE, IN_BROWSER)

desc "Specs that need no database, in parallel, without the slow ones and those that measure time"
task spec: :compile do
  ParallelSpecs.together(:spec, SPECS, without: ParallelSpecs::ALONE + ParallelSpecs::FULL)
end

namespace :spec do
  desc "Specs that need no database and measure time, one after the other"
  task(alone: :compile) { ParallelSpecs.alone(SPECS, without: ParallelSpecs::FULL) }

  desc "Of the same files, the examples that take long, or that need a database after all"
  task(slow: :compile) { ParallelSpecs.together(:slow, SPECS, with: ParallelSpecs::FULL) }

  desc "The specs of spec:slow that measure time, one after the other"
  task("slow:alone": :compile) { ParallelSpecs.alone(SPECS, with: ParallelSpecs::FULL_ALONE) }

  desc "Specs with applications of Rails, and beside parse-stack-next"
  task(rails: :compile) { ParallelSpecs.together(:rails, FileList[ON_RAILS], without: []) }

  desc "Specs of the web pages in a browser; their pictures are in tmp/screenshots"
  task web: :compile do
    ParallelSpecs.together(:web, FileList[IN_BROWSER], without: [], processes: 1)
  end

  desc "Specs on database servers and memcached, and of drop-ins, without those that measure time"
  task databases: :compile do
    # one more process, because these examples wait longer than others
    ParallelSpecs.together(:databases, DATABASE_SPECS, processes: ParallelSpecs::PROCESSES + 1)
  end

  desc "The specs of spec:databases that measure time, one after the other"
  task("databases:alone": :compile) { ParallelSpecs.alone(DATABASE_SPECS) }

  PORTABLE = "tmp/portable"

  path = [File.expand_path("#{PORTABLE}/lib"), ENV.fetch("RUBYLIB", nil)].compact
  portable = { environment: { "RUBYLIB" => path.join(File::PATH_SEPARATOR) } }

  desc "Specs of what calls the system, the extension built without the Linux-only calls"
  task portable: %w[compile portable:compile] do
    ParallelSpecs.together(:portable, PORTABLE_SPECS, **portable)
  end

  desc "The specs of spec:portable that measure time, one after the other, without the slow ones"
  task "portable:alone": %w[compile portable:compile] do
    ParallelSpecs.alone(PORTABLE_SPECS, without: ParallelSpecs::FULL, **portable)
  end

  desc "All other specs of the library, with the same extension"
  task "portable:others": %w[compile portable:compile] do
    others = LIBRARY.dup.exclude(*PORTABLE_SPECS)
    ParallelSpecs.together(:portable, others, **portable)
    ParallelSpecs.alone(others, **portable)
    ParallelSpecs.alone(PORTABLE_SPECS, with: ParallelSpecs::FULL_ALONE, **portable)
  end

  task "portable:compile" do
    mkdir_p %W[#{PORTABLE}/build #{PORTABLE}/lib/plock]
    chdir("#{PORTABLE}/build") do
      sh RbConfig.ruby, "../../../ext/plock/extconf.rb", "--disable-linux-calls"
      sh "make"
    end
    cp "#{PORTABLE}/build/plock.#{RbConfig::CONFIG["DLEXT"]}", "#{PORTABLE}/lib/plock"
  end

  desc "Note how long each file took in the last runs, so that parallel processes get equal shares"
  task :runtimes do
    ParallelSpecs.note_runtimes(
      spec: SPECS, slow: SPECS, rails: FileList[ON_RAILS], web: FileList[IN_BROWSER],
      databases: DATABASE_SPECS, portable: PORTABLE_SPECS
    )
  end
end
