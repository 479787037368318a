# frozen_string_literal: true

require "spec_helper"

# The cost of plock in a process that hardly uses it.
RSpec.describe "require \"plock\"" do
  it "loads neither Ruby's OpenSSL nor its sockets: the engine has its own" do
    output, status =
      ruby('require "plock"; Plock::Store.open("redis://h").url; puts $LOADED_FEATURES')
    expect(status).to be_success, output
    expect(output.lines.grep(%r{/(openssl|socket|json|optparse|ipaddr)\.})).to be_empty
  end

  it "still reads clients of Redis" do
    output, status = ruby(<<~RUBY)
      require "plock"
      begin
        Plock::Store.open(Object.new)
      rescue Plock::ConfigurationError => e
        puts e.message
      end
    RUBY
    expect(status).to be_success, output
    expect(output).to include "cannot take the address of a Redis"
  end
end
