# frozen_string_literal: true

require_relative "lib/plock/version"

Gem::Specification.new do |spec|
  spec.name = "plock"
  spec.version = Plock::VERSION
  spec.authors = ["the plock authors"]
  spec.summary = "Distributed locks on Redis for Ruby, through a C core"
  spec.description = "Parse::Lock and Plock: one holder at a time across processes and machines, on one Redis. " \
                     "Hashing, tokens, protocol and timing are done in C; every call returns within its own budget."
  spec.license = "MIT"

  spec.required_ruby_version = ">= 3.1"
  spec.require_paths = ["lib"]
  spec.bindir = "exe"
  spec.executables = ["plock"]
  spec.extensions = ["ext/plock/extconf.rb"]

  # The name on rubygems.org belongs to another gem: this one is installed from a checkout or a Git source.
  spec.metadata = { "allowed_push_host" => "https://localhost", "rubygems_mfa_required" => "true" }

  # Checked against the tree by `rake files`, rewritten by `rake files:update`.
  spec.files = %w[
    CHANGELOG.md
    LICENSE
    README.md
    exe/plock
    ext/plock/binding.h
    ext/plock/binding_conversation.c
    ext/plock/binding_digest.c
    ext/plock/binding_errors.c
    ext/plock/binding_group.c
    ext/plock/binding_hold.c
    ext/plock/binding_inquiry.c
    ext/plock/binding_lease.c
    ext/plock/binding_notices.c
    ext/plock/binding_process.c
    ext/plock/binding_store.c
    ext/plock/binding_take.c
    ext/plock/binding_waiting.c
    ext/plock/core/Makefile
    ext/plock/core/include/plock.h
    ext/plock/core/include/plock/clock.h
    ext/plock/core/include/plock/config.h
    ext/plock/core/include/plock/conversation.h
    ext/plock/core/include/plock/digest.h
    ext/plock/core/include/plock/group.h
    ext/plock/core/include/plock/inquiry.h
    ext/plock/core/include/plock/lease.h
    ext/plock/core/include/plock/notice.h
    ext/plock/core/include/plock/operation.h
    ext/plock/core/include/plock/status.h
    ext/plock/core/include/plock/store.h
    ext/plock/core/include/plock/waker.h
    ext/plock/core/include/plock/want.h
    ext/plock/core/scripts/acquire.lua
    ext/plock/core/scripts/acquire_all.lua
    ext/plock/core/scripts/break.lua
    ext/plock/core/scripts/check.lua
    ext/plock/core/scripts/embed.awk
    ext/plock/core/scripts/extend.lua
    ext/plock/core/scripts/leave.lua
    ext/plock/core/scripts/parts/free.lua
    ext/plock/core/scripts/parts/now.lua
    ext/plock/core/scripts/parts/number.lua
    ext/plock/core/scripts/parts/pass.lua
    ext/plock/core/scripts/parts/share.lua
    ext/plock/core/scripts/parts/tell.lua
    ext/plock/core/scripts/release.lua
    ext/plock/core/scripts/release_all.lua
    ext/plock/core/scripts/scan.lua
    ext/plock/core/scripts/shared_acquire.lua
    ext/plock/core/scripts/shared_break.lua
    ext/plock/core/scripts/shared_downgrade.lua
    ext/plock/core/scripts/shared_extend.lua
    ext/plock/core/scripts/shared_leave.lua
    ext/plock/core/scripts/shared_release.lua
    ext/plock/core/scripts/shared_status.lua
    ext/plock/core/scripts/status.lua
    ext/plock/core/scripts/undo.lua
    ext/plock/core/src/acquire.c
    ext/plock/core/src/channel.c
    ext/plock/core/src/channel.h
    ext/plock/core/src/clock.c
    ext/plock/core/src/command.c
    ext/plock/core/src/command.h
    ext/plock/core/src/config.c
    ext/plock/core/src/config.h
    ext/plock/core/src/connection.c
    ext/plock/core/src/connection.h
    ext/plock/core/src/conversation.c
    ext/plock/core/src/descriptor.h
    ext/plock/core/src/digest.c
    ext/plock/core/src/drive.c
    ext/plock/core/src/errand.c
    ext/plock/core/src/errand.h
    ext/plock/core/src/exchange.c
    ext/plock/core/src/exchange.h
    ext/plock/core/src/failure.h
    ext/plock/core/src/group.c
    ext/plock/core/src/initialize.c
    ext/plock/core/src/inquiry.c
    ext/plock/core/src/keeper.c
    ext/plock/core/src/keeper.h
    ext/plock/core/src/lease.c
    ext/plock/core/src/lease.h
    ext/plock/core/src/lease_facts.c
    ext/plock/core/src/line.c
    ext/plock/core/src/line.h
    ext/plock/core/src/memory.c
    ext/plock/core/src/memory.h
    ext/plock/core/src/notice.c
    ext/plock/core/src/notice.h
    ext/plock/core/src/owner.c
    ext/plock/core/src/owner.h
    ext/plock/core/src/pause.c
    ext/plock/core/src/pause.h
    ext/plock/core/src/platform.h
    ext/plock/core/src/pool.c
    ext/plock/core/src/pool.h
    ext/plock/core/src/process.c
    ext/plock/core/src/process.h
    ext/plock/core/src/random.c
    ext/plock/core/src/random.h
    ext/plock/core/src/reply.c
    ext/plock/core/src/reply.h
    ext/plock/core/src/request.c
    ext/plock/core/src/request.h
    ext/plock/core/src/resolver.c
    ext/plock/core/src/resolver.h
    ext/plock/core/src/script.c
    ext/plock/core/src/script.h
    ext/plock/core/src/status.c
    ext/plock/core/src/store.c
    ext/plock/core/src/store.h
    ext/plock/core/src/subject.c
    ext/plock/core/src/subject.h
    ext/plock/core/src/term.h
    ext/plock/core/src/text.h
    ext/plock/core/src/transport.h
    ext/plock/core/src/transport_socket.c
    ext/plock/core/src/transport_tls.c
    ext/plock/core/src/waiter.c
    ext/plock/core/src/waiter.h
    ext/plock/core/src/waker.c
    ext/plock/core/src/waker.h
    ext/plock/core/src/watch.c
    ext/plock/core/src/watch.h
    ext/plock/core/src/worker.c
    ext/plock/core/src/worker.h
    ext/plock/depend
    ext/plock/extconf.rb
    ext/plock/plock.c
    lib/parse/lock.rb
    lib/parse/lock/application.rb
    lib/parse/lock/arguments.rb
    lib/parse/lock/attempts.rb
    lib/parse/lock/degraded.rb
    lib/parse/lock/errors.rb
    lib/parse/lock/process_mutex.rb
    lib/parse/lock/process_mutexes.rb
    lib/parse/lock/reports.rb
    lib/parse/lock/secrets.rb
    lib/parse/lock/store_resolver.rb
    lib/parse/lock_backend.rb
    lib/plock.rb
    lib/plock/cli.rb
    lib/plock/cli/bell.rb
    lib/plock/cli/break_command.rb
    lib/plock/cli/child.rb
    lib/plock/cli/command.rb
    lib/plock/cli/description.rb
    lib/plock/cli/doctor/check.rb
    lib/plock/cli/doctor/connection.rb
    lib/plock/cli/doctor/finding.rb
    lib/plock/cli/doctor/memory.rb
    lib/plock/cli/doctor/rights.rb
    lib/plock/cli/doctor/server.rb
    lib/plock/cli/doctor/surroundings.rb
    lib/plock/cli/doctor_command.rb
    lib/plock/cli/exit_status.rb
    lib/plock/cli/failure.rb
    lib/plock/cli/help.rb
    lib/plock/cli/job.rb
    lib/plock/cli/list_command.rb
    lib/plock/cli/locating.rb
    lib/plock/cli/paint.rb
    lib/plock/cli/reporter.rb
    lib/plock/cli/run_command.rb
    lib/plock/cli/status_command.rb
    lib/plock/cli/table.rb
    lib/plock/cli/terminal.rb
    lib/plock/cli/wait_command.rb
    lib/plock/cli/watchdog.rb
    lib/plock/client_address.rb
    lib/plock/client_address/moneta_chain.rb
    lib/plock/client_address/tls_parameters.rb
    lib/plock/clock.rb
    lib/plock/configuration.rb
    lib/plock/default_store.rb
    lib/plock/dispatcher.rb
    lib/plock/errors.rb
    lib/plock/events.rb
    lib/plock/events/active_support.rb
    lib/plock/events/event.rb
    lib/plock/hold.rb
    lib/plock/lease.rb
    lib/plock/locking.rb
    lib/plock/locking/arguments.rb
    lib/plock/locking/bunch.rb
    lib/plock/locking/kind.rb
    lib/plock/locking/own_shares.rb
    lib/plock/locking/profile.rb
    lib/plock/locking/share.rb
    lib/plock/locking/shared_lock.rb
    lib/plock/locking/taking.rb
    lib/plock/locking/taking_all.rb
    lib/plock/locking/terms.rb
    lib/plock/log.rb
    lib/plock/loss_alarm.rb
    lib/plock/monitor.rb
    lib/plock/once.rb
    lib/plock/read_write_lock.rb
    lib/plock/record.rb
    lib/plock/semaphore.rb
    lib/plock/status.rb
    lib/plock/store.rb
    lib/plock/store/adopting.rb
    lib/plock/store/telling.rb
    lib/plock/testing.rb
    lib/plock/testing/claim.rb
    lib/plock/testing/grant.rb
    lib/plock/testing/memory_hold.rb
    lib/plock/testing/memory_lock.rb
    lib/plock/testing/memory_store.rb
    lib/plock/testing/owner.rb
    lib/plock/testing/timekeeper.rb
    lib/plock/testing/world.rb
    lib/plock/version.rb
    sig/plock.rbs
  ]
end
