# frozen_string_literal: true

require "spec_helper"

# Runs in another process, because this process has loaded Rack 3.
RSpec.describe "Plock::Web with Rack 2" do
  it "shows its pages, and refuses what it cannot read" do
    program = <<~'RUBY'
      begin
        gem "rack", "~> 2.2"
        gem "erubi"
      rescue LoadError
        abort "missing"
      end
      require "plock/web"
      require "rack/lint"
      require "rack/mock"
      store = Plock::Store.open("memory:")
      lease = store.acquire("import", ttl: 60)
      path = "/locks/#{lease.store_key}"
      pages = Rack::MockRequest.new(Rack::Lint.new(Plock::Web.new(store)))
      part = "--x\r\nContent-Disposition: form-data; name=a; filename=f\r\n\r\nz\r\n"
      paths = ["/", "/locks", "/doctor", path, "#{path}/break"]
      codes = paths.map { |each| pages.get(each).status }
      codes << pages.post("#{path}/break", input: "#{part * 200}--x--\r\n",
                          "CONTENT_TYPE" => "multipart/form-data; boundary=x").status
      lease.release
      puts "#{Rack.release[0, 3]} #{codes}"
    RUBY
    output = ruby(program, env: { "RUBYOPT" => nil, "BUNDLER_SETUP" => nil }).first
    skip "rack 2.2 is not installed here" if output == "missing\n"
    expect(output).to eq("2.2 #{([200] * 5) + [400]}\n")
  end
end
