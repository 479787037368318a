# frozen_string_literal: true

namespace :messages do
  desc "Write spec/messages.txt, the list of all that plock says, anew"
  task :update do
    require_relative "../support/messages"
    File.write(Support::Messages::FILE, Support::Messages.all)
  end
end
