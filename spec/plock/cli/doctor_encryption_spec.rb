# frozen_string_literal: true

require "spec_helper"
require "plock/cli/doctor/connection"
require "plock/cli/doctor/server"

# The sentinels' answers are handwritten here.
RSpec.describe "The report of plock doctor on encryption:" do
  # @param primary [String, Error] the primary's address as the sentinels tell it, or the error if
  #   they name none
  def found(url, place: nil, primary: "127.0.0.1", **options)
    store = open_store(url, **options)
    sentinel = instance_double(Plock::Store::Conversation, close: nil)
    allow(sentinel).to receive(:ask) do |words|
      raise primary if Exception === primary

      words[1] == "MASTER" ? ["ip", primary, "port", "6379"] : "OK 3 usable Sentinels"
    end
    allow(store).to receive(:converse) { sentinel }
    Plock::CLI::Doctor::Encryption.run(Plock::CLI::Doctor::Server.new(store, place))
  end

  needless = { level: :fine, message: /none needed: it does not leave this host/ }
  missing = { level: :advice, message: /\Anone: a host on the path/ }

  it "needs none on this host" do
    ["unix:///tmp/redis.sock", "redis://localhost", "redis://127.0.0.1:6380/3", "redis://127.8.9.1",
     "redis://[::1]:6380/3"].each do |url|
      expect(found(url)).to have_attributes(needless)
    end
  end

  it "is missing on the way to a host whose name only begins like this one's" do
    %w[localhost.example.com 127.example.com 127.0.0.1.example.com localhost-2 [2001:db8::1]
       [::127]].each do |host|
      expect(found("redis://#{host}")).to have_attributes(missing)
    end
  end

  it "depends on the place of a cluster's node, not on that in the URL" do
    expect(found("redis+cluster://localhost:7000", place: ["10.0.0.2", "7000"]))
      .to have_attributes(missing)
    expect(found("redis+cluster://a:7000", place: ["::1", "7000"])).to have_attributes(needless)
  end

  it "depends on the places of all sentinels, and of the primary that they name" do
    here = "redis+sentinel://127.0.0.1:26379,localhost/main"
    expect(found(here)).to have_attributes(needless)
    expect(found(here, primary: "10.0.0.2")).to have_attributes(missing)
    expect(found(here, primary: Plock::UnavailableError.new("away"))).to have_attributes(missing)
    expect(found("redis+sentinel://127.0.0.1,s2/main")).to have_attributes(missing)
  end

  it "is missing on the way to sentinels that are asked in the clear" do
    url = "rediss+sentinel://s1,s2/main"
    expect(found(url)).to have_attributes(level: :fine, message: /\ATLS, with a verified/)
    expect(found(url, sentinel_tls: false)).to have_attributes(
      level: :advice, message: /the sentinels are asked in the clear/, remedy: /sentinel_tls/
    )
    expect(found("rediss+sentinel://127.0.0.1/main", primary: "10.0.0.2", sentinel_tls: false))
      .to have_attributes(level: :fine, message: /\ATLS, with a verified/)
  end

  it "names the option by which only the sentinels are not verified" do
    url = "rediss+sentinel://s1,s2/unverified"
    of_sentinels = of_servers = nil
    warnings do
      of_sentinels = found(url, verify: :peer, sentinel_verify: :none)
      of_servers = found(url, verify: :none, sentinel_verify: :peer)
    end
    expect(of_sentinels).to have_attributes(
      level: :advice, message: /the certificates of the sentinels are not verified/,
      remedy: /sentinel_verify/
    )
    expect(of_servers).to have_attributes(
      level: :danger, message: /certificate is not verified: any server/, remedy: /leave verify out/
    )
  end

  it "is missing on the way to a server whose sentinels alone use TLS" do
    expect(found("redis+sentinel://s1/main", sentinel_tls: true)).to have_attributes(missing)
  end
end
