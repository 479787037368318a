# frozen_string_literal: true

namespace :plock do
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
