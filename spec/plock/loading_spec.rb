# frozen_string_literal: true

require "spec_helper"

# What a process pays that has plock in it and does little else.
RSpec.describe "require \"plock\"" do
  it "loads neither Ruby's OpenSSL nor its sockets: the engine has its own" do
    output, status =
      ruby('require "plock"; Plock::Store.open("redis://h").url; puts $LOADED_FEATURES')
    expect(status).to be_success, output
    expect(output.lines.grep(%r{/(openssl|socket|json|optparse|ipaddr)\.})).to be_empty
  end

  it "reads clients of Redis all the same" do
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
