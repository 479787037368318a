# frozen_string_literal: true

require "spec_helper"

# Each example runs in its own process, because ActiveSupport changes many classes.
RSpec.describe "ActiveSupport::Notifications" do
  before do
    Gem::Specification.find_by_name("activesupport")
  rescue Gem::MissingSpecError
    skip "activesupport not installed"
  end

  def notified(program)
    output, status = ruby(<<~RUBY)
      require "logger"
      require "active_support"
      require "active_support/notifications"
      require "plock"
      store = Plock::Store.open("memory:")
      #{program}
    RUBY
    expect(status).to be_success, output
    output
  end

  it "gets events, with times and payload, in each form that its listeners take" do
    expect(notified(<<~'RUBY')).to eq("acquire.plock true true true\nacquire.plock true\n")
      ActiveSupport::Notifications.subscribe("acquire.plock") do |name, start, finish, id, payload|
        told = payload[:label] == "why" && payload[:fence] > 0
        puts "#{name} #{start.is_a?(Time) && finish >= start} #{!id.nil?} #{told}"
      end
      ActiveSupport::Notifications.subscribe("acquire.plock") do |event|
        puts "#{event.name} #{event.duration.between?(0, 5_000)}"
      end
      store.acquire("k", label: "why") { nil }
    RUBY
  end

  it "is not told of events without a subscriber, and takes a pattern for plock's events" do
    expect(notified(<<~'RUBY')).to eq("release.plock\n")
      ActiveSupport::Notifications.subscribe(/release\.plock/) { |event| puts event.name }
      store.acquire("k") { nil }
    RUBY
  end
end
