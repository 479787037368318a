# frozen_string_literal: true

namespace :plock do
  run = ->(command, words) do
    require "plock/rails/commands"
    status = Plock::Railtie.const_get(command).new(words).run
    exit(status) unless status.zero?
  end

  desc "List the keys that are held (plock:locks[import*]: those whose label, host, store key " \
       "or name matches)"
  task :locks, [:pattern] => :environment do |_, arguments|
    run.call(:Locks, [*arguments[:pattern]])
  end

  desc "Say what the application's locks can rely on, and what to do about it " \
       "(plock:doctor[persistence,…] accepts known dangers)"
  task :doctor, [] => :environment do |_, arguments|
    run.call(:Doctor, arguments.extras)
  end

  desc "Compare the secret of the application with that of others " \
       "(plock:secret[replace] makes it the right one)"
  task :secret, [] => :environment do |_, arguments|
    run.call(:Secret, arguments.extras)
  end
end
