# frozen_string_literal: true

namespace :plock do
  desc "List the keys that are held (plock:locks[import*]: those whose label, host, store key " \
       "or name matches)"
  task :locks, [:pattern] => :environment do |_, arguments|
    require "plock/rails/locks"
    status = Plock::Railtie::Locks.run([*arguments[:pattern]])
    exit(status) unless status.zero?
  end

  desc "Say what the application's locks can rely on, and what to do about it " \
       "(plock:doctor[persistence,…] accepts known dangers)"
  task :doctor, [] => :environment do |_, arguments|
    require "plock/rails/doctor"
    status = Plock::Railtie::Doctor.run(arguments.extras)
    exit(status) unless status.zero?
  end

  desc "Compare the secret of the application with that of others " \
       "(plock:secret[replace] makes it the right one)"
  task :secret, [] => :environment do |_, arguments|
    require "plock/rails/secret"
    status = Plock::Railtie::Secret.run(arguments.extras)
    exit(status) unless status.zero?
  end
end
