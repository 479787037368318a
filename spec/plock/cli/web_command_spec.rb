# frozen_string_literal: true

require "spec_helper"
require "net/http"
require "support/command_line"

RSpec.describe "plock web", needs: "redis-server" do
  include Support::CommandLine

  let(:store) { open_store }

  # Starts plock web with the gems of this process's bundle, which include those for the pages.
  def start(*options, env: {})
    env = { "RUBYOPT" => ENV["RUBYOPT"], "BUNDLER_SETUP" => ENV["BUNDLER_SETUP"] }.merge(env)
    start_plock("web", *options, env: env)
  end

  # The URL that the command prints once it is listening.
  def url_of(running) = URI(running.line(running.out) || raise(running.err.read))

  def get(url, path, **headers)
    Net::HTTP.start(url.host, url.port) do |http|
      http.get(path, headers.transform_keys(&:to_s))
    end
  end

  # The path and the cookie of a browser that has opened the URL.
  def enter(url)
    answer = get(url, "/?#{url.query}")
    place = answer["location"][%r{\A(?:http://[^/]+)?(/[\w-]{12})/\z}, 1]
    expect(answer.code).to eq "303"
    expect(answer["set-cookie"]).to end_with("; path=#{place}; httponly; samesite=lax")
    [place, answer["set-cookie"][/\A[^;]+/]]
  end

  installed = ->(name) { Gem::Specification.find_all_by_name(name).any? }

  { "puma" => %w[puma], "webrick" => %w[webrick rackup] }.each do |server, gems|
    it "serves the pages on #{server} to users who have its URL, until it is ended" do
      missing = gems.reject(&installed)
      skip "#{missing.join(", ")} not installed" if missing.any?
      running = start("--server", server)
      url = url_of(running)
      expect(url.to_s).to match(%r{\Ahttp://127\.0\.0\.1:\d+/\?token=[\w-]{32}\z})
      ["/", "/locks", "/?token=wrong", "/assets/plock.css"].each do |path|
        expect(get(url, path).code).to eq "403"
      end
      if RUBY_PLATFORM.include?("linux") # other systems have only one loopback address
        expect { TCPSocket.new("127.0.0.2", url.port) }.to raise_error(Errno::ECONNREFUSED)
      end
      place, cookie = enter(url)
      expect(get(url, "#{place}/").code).to eq "403"
      expect(get(url, "/", cookie: cookie).code).to eq "403"
      label = "example #{SecureRandom.hex(4)}"
      store.acquire(lock_name, label: label) do
        query = URI.encode_www_form_component(label)
        expect(get(url, "#{place}/locks?q=#{query}", cookie: cookie).body)
          .to include label
      end
      running.signal(:TERM)
      expect(running.finish.exitstatus).to eq 0
      expect(running.said).to eq ["", ""]
    end

    it "listens on localhost with #{server}" do
      missing = gems.reject(&installed)
      skip "#{missing.join(", ")} not installed" if missing.any?
      url = url_of(start("--server", server, "--host", "localhost"))
      expect(url.host).to eq "localhost"
      enter(url)
    end
  end

  context "with a server" do
    before { skip "puma not installed" unless installed.call("puma") }

    let(:installed) { ->(name) { Gem::Specification.find_all_by_name(name).any? } }

    it "breaks nothing with --read-only" do
      url = url_of(start("--read-only"))
      key = lock_name
      discard(store.acquire(key, ttl: 60), :release)
      place, cookie = enter(url)
      answer = get(url, "#{place}/locks/#{store.status(key).store_key}/break", cookie: cookie)
      expect([answer.code, answer.body]).to match ["403", /Locks cannot be broken here/]
    end

    it "warns if other hosts reach it" do
      running = start("--host", "0.0.0.0", "--port", "0")
      url_of(running)
      expect(running.line(running.err)).to include "other hosts reach the pages too"
    end

    # If a foreign site's name resolved to 127.0.0.1, its scripts could read the pages as their
    # own.
    it "answers under its own names only" do
      url = url_of(start)
      place, cookie = enter(url)
      { "rebound.example" => "403", "127.0.0.1.rebound.example" => "403", "" => "403",
        "localhost" => "200", "LOCALHOST:80" => "200", "[::1]:9393" => "200",
        Socket.gethostname => "200" }.each do |host, code|
        expect([host, get(url, "#{place}/", cookie: cookie, host: host).code]).to eq [host, code]
        next if code == "200"

        expect(get(url, "/?#{url.query}", host: host)["set-cookie"]).to be_nil
      end
    end

    it "says so at once if the store is away" do
      url = url_of(start("--store", "redis://127.0.0.1:1"))
      place, cookie = enter(url)
      answer = get(url, "#{place}/", cookie: cookie)
      expect([answer.code, answer.body]).to match ["200", /This store does not answer/]
    end

    it "names an address that it cannot use" do
      taken = discard(TCPServer.new("127.0.0.1", 0), :close)
      running = start("--port", taken.addr[1].to_s)
      expect(running.finish.exitstatus).to eq 64
      expect(running.said.last).to include "cannot listen on 127.0.0.1, port #{taken.addr[1]}"
    end
  end

  it "names what cannot be right" do
    { ["--port", "x"] => "--port must be from 0 to 65535", ["key"] => "no key is needed",
      ["--server", "thin"] => "puma or webrick" }.each do |options, message|
      running = start(*options)
      expect(running.finish.exitstatus).to eq 64
      expect(running.said.last).to include message
    end
  end

  it "names a gem that is missing" do
    hidden = File.join(Support::Supervisor.folder, "hidden-#{SecureRandom.hex(4)}")
    Dir.mkdir(hidden)
    # acts as if the gem were not installed
    File.write("#{hidden}/erubi.rb", %(raise LoadError.new("no").tap { |e| def e.path = "erubi" }))
    running = start(env: { "RUBYLIB" => hidden })
    expect(running.finish.exitstatus).to eq 69
    expect(running.said.last).to match(/\Aplock: plock\/web needs the gem erubi.*Gemfile/)
  end
end
